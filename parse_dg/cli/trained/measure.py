"""`parse-dg measure` and `parse-dg report`: what a run is worth, in numbers, and all of it as one page."""

from argparse import Namespace

from parse_dg.cli.options import Console, command, opened, print_json, say
from parse_dg.wording import printable


@command("measure")
def measure(options: Namespace, console: Console) -> None:
    """What a run's primitives and relations are worth: collapse, consistency, use of structure.

    On the images a run of PARSE is judged by, the target's and the held-out ones of the sources:
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

    Takes:
      run RUN  the folder of a run of parse
      --format = table json csv csv-raw markdown  {CSV}
      --within CELLS = 0.5  how far apart primitives that coincide may be, in cells of the heat map
      --swaps N = 5  how often geometry is swapped
      --parts FOLDER  parts marked in the photographs of a run on cub-dg: the folder of CUB-200-2011, with
        images.txt, bounding_boxes.txt, parts/ and images/
      {MODEL}

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


@command("report")
def report(options: Namespace, console: Console) -> None:
    """One HTML file about a run: results, confusions, classes in words, images with their reasons.

    It needs no network and no other file: the result and how it was chosen, accuracy and confusions by
    domain, what each class is made of, right and wrong images with their relations, compaction, and how to
    repeat it.

    The images of the run's benchmark are looked at again. Where they are not on this machine, the report is
    made of what the run's folder holds, and says what it lacks.

    Takes:
      run RUN  the run's folder
      --out FILE  a .html file (default: RUN/report.html)
      --images N = 12  shown of each kind: right and wrong, of the target and of the source domains; about 20 to
        50 kB each
      {MODEL}

    For example:
      parse-dg report runs/blueprints/parse/sketch/seed0 --out parse-sketch.html
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.report.gather import gather_report
    from parse_dg.explain.report.page import check_place, write_report

    path = options.out or options.run / "report.html"
    with progress_display(console) as progress:
        if options.out or options.run.is_dir():
            check_place(path)
        gathered = gather_report(opened(options, progress), images=options.images)
    size = write_report(path, gathered)
    say(console, *map(printable, gathered.notes), f"written to {path}: {size:,} bytes, to be opened in a browser")
