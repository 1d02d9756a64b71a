"""`parse-dg config`: every field of a run's configuration, in words."""

import argparse
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands

if TYPE_CHECKING:
    from rich.console import Console


def config(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg config`."""
    from parse_dg.cli.show import config as show
    from parse_dg.cli.show.fields import sections
    from parse_dg.config import change, lookup
    from parse_dg.runs.protocols import apply_protocol
    from parse_dg.runs.recipes import build_config, default_recipe

    if options.format == "markdown":
        console.print(show.as_page(), markup=False, soft_wrap=True, end="")
        return
    recipe = options.recipe or default_recipe(options.data)
    chosen = build_config(recipe, options.algorithm, options.data)
    chosen = apply_protocol(options.protocol, change(chosen, {"data.benchmark": options.data}))
    if options.section:
        lookup(chosen, options.section)
    found = show.below(options.section or "", list(sections(chosen)))
    if options.format == "json":
        console.print(show.as_json(found), markup=False, soft_wrap=True)
    else:
        show.print_sections(console, found)


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "config",
        help="every field of a configuration: meaning, type, valid values, value",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print what can be set: every field with its value in a recipe, the default where that is\n"
        "another, its type, its valid values and its meaning.",
        epilog="example:\n  parse-dg config algorithm.primitives --recipe paper\n\n"
        "A field is set with `parse-dg train --set FIELD=VALUE`.",
    )
    command.add_argument(
        "section", nargs="?", metavar="SECTION", help="such as algorithm.primitives (default: all)"
    )
    command.add_argument("--algorithm", default="parse", metavar="NAME", help="whose fields (default: parse)")
    command.add_argument(
        "--data", default="blueprints", metavar="DATA", help="trained on what (default: blueprints)"
    )
    command.add_argument("--recipe", metavar="NAME", help="whose values (default: the recipe for the data)")
    command.add_argument("--protocol", default="parse", metavar="NAME", help="over the recipe (default: parse)")
    command.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default="text",
        help="markdown: docs/configuration.md, with the fields of every method",
    )
    command.set_defaults(command=config)
