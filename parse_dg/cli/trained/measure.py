"""`parse-dg measure`: what a run's primitives and relations are worth, in numbers."""

from argparse import Namespace

from parse_dg.cli.options import Commands, Console, add_command, opened, print_json


def measure(options: Namespace, console: Console) -> None:
    """Measure a run of PARSE on the images it is judged by, the target's and the held-out ones of
    the sources, in one pass over them:
      what accuracy rests on: relations alone, presence alone, another image's geometry swapped in;
      beside it the guide, the classifier on pooled features that only trains: what the features know;
      selected after the start: how many relations a class uses, and which it did not begin with;
      collapse: how many primitives coincide, in images classified right and wrong;
      on its evidence: how often a primitive's heat map is strong where the primitive is said to be;
      consistency: whether a primitive is the same thing in two domains, from images and labels alone;
      localisation: the distance to true parts, on Blueprints, where those are known;
      parts followed at once: in how many images every part has its own primitive on it, there too;
      annotated parts: which primitives follow the parts that people have marked in photographs (--parts).

    Numbers come with what chance would give, where there is such a thing. The definitions are below the
    tables; --format json has every number in full, also of every primitive.

    For example:
      parse-dg measure runs/blueprints/parse/sketch/seed0
      parse-dg measure runs/pacs/parse/sketch/seed0 --format json > measures.json
      parse-dg measure runs/cub-dg/parse/Paint/seed0 --parts CUB_200_2011
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.cli.show.measures import measure_tables, measures_csv
    from parse_dg.cli.show.tables import show
    from parse_dg.explain.measures.measure import measure_run

    with progress_display() as progress:
        run = opened(options, progress)
        found = measure_run(run, within=options.within, swaps=options.swaps, parts=options.parts)
    if options.format == "json":
        print_json(console, found.to_dict())
    else:
        show(console, options.format, measure_tables(found), lambda: measures_csv(found))


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "what a run's primitives and relations are worth: collapse, consistency, use of structure"
    command = add_command(commands, "measure", measure, words)
    command.add_run("the folder of a run of parse")
    command.add_format("table", "json", "csv", "csv-raw", "markdown")
    command.add("--within CELLS", "how far apart primitives that coincide may be, in cells of the heat map", 0.5)
    command.add("--swaps N", "how often geometry is swapped", 5)
    parts = "parts marked in the photographs of a run on cub-dg: the folder of CUB-200-2011, with images.txt, "
    command.add("--parts FOLDER", parts + "bounding_boxes.txt, parts/ and images/")
    command.add_model()
