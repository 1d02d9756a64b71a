"""`parse-dg config`: every field of a run's configuration, in words."""

from argparse import Namespace

from parse_dg.cli.options import Console, command, print_json


@command("config")
def config(options: Namespace, console: Console) -> None:
    """Every field of a configuration: its value in a recipe, default, type, valid values and meaning.

    Takes:
      section SECTION?  such as algorithm.primitives (default: all)
      --algorithm NAME = parse  whose fields
      --data DATA = blueprints  trained on what
      --recipe NAME  whose values (default: the recipe for the data)
      --protocol NAME = parse  over the recipe
      --format = text json markdown  markdown: docs/configuration.md, with the fields of every method

    For example:
      parse-dg config algorithm.primitives --recipe paper

    A field is set with `parse-dg train --set FIELD=VALUE`.
    """
    from dataclasses import asdict

    from parse_dg.cli.show import config as show
    from parse_dg.cli.show.config import sections
    from parse_dg.config import change, lookup
    from parse_dg.runs.protocols import apply_protocol
    from parse_dg.runs.recipes import build_config, default_recipe

    if options.format == "markdown":
        console.print(show.as_page(), markup=False, soft_wrap=True, end="")
        return
    chosen = build_config(options.recipe or default_recipe(options.data), options.algorithm, options.data)
    chosen = apply_protocol(options.protocol, change(chosen, {"data.benchmark": options.data}))
    if options.section:
        lookup(chosen, options.section)
    found = show.below(options.section or "", list(sections(chosen)))
    if options.format == "json":
        print_json(console, [asdict(field) for section in found for field in section.fields])
    else:
        show.print_sections(console, found)
