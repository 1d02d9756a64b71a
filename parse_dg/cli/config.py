"""`parse-dg config`: every field of a run's configuration, in words."""

from argparse import Namespace

from parse_dg.cli.options import Commands, Console, add_command, print_json


def config(options: Namespace, console: Console) -> None:
    """Print what can be set: every field with its value in a recipe, the default where that is
    another, its type, its valid values and its meaning.

    For example:
      parse-dg config algorithm.primitives --recipe paper

    A field is set with `parse-dg train --set FIELD=VALUE`.
    """
    from dataclasses import asdict

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
        print_json(console, [asdict(field) for section in found for field in section.fields])
    else:
        show.print_sections(console, found)


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = add_command(commands, "config", config, "every field of a configuration: meaning, type, valid values")
    command.add("section SECTION", "such as algorithm.primitives (default: all)", nargs="?")
    command.add("--algorithm NAME", "whose fields", "parse")
    command.add("--data DATA", "trained on what", "blueprints")
    command.add("--recipe NAME", "whose values (default: the recipe for the data)")
    command.add("--protocol NAME", "over the recipe", "parse")
    page = "markdown: docs/configuration.md, with the fields of every method"
    command.add("--format", page, choices=("text", "json", "markdown"))
