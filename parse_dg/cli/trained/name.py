"""`parse-dg name`: what people call the primitives of a model."""

import shlex
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, opened, print_json, say
from parse_dg.errors import InputError
from parse_dg.wording import percent, plural, printable

if TYPE_CHECKING:
    from parse_dg.explain.measures.proposals import ProposedName
    from parse_dg.runs.afterwards.opened import OpenedRun


def name(options: Namespace, console: Console) -> None:
    """Give names to a model's primitives, or list them. A sentence then says "beak above red crest"
    instead of "p3 above p11": in every explanation, table, picture, report and on the page.

    Names are kept in names.json beside the model, and go with it into compacted and exported models.
    They are words for people: no prediction changes. Look at the faces of the primitives first
    (`parse-dg figure faces RUN`), or have names proposed where it is known where parts are
    (Blueprints, or photographs of CUB-200-2011 with --parts): what is proposed is printed as a command
    and never given by itself.

    For example:
      parse-dg name RUN
      parse-dg name RUN p3=beak p11="red crest"
      parse-dg name RUN p3=                          (takes its name away)
      parse-dg name RUN --propose
      parse-dg name RUN --propose --parts CUB_200_2011
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.deploy.names import NAMES, change_names, parse_assignment, write_names

    changes = [parse_assignment(text) for text in options.names]
    if len({k for k, _ in changes}) < len(changes):
        raise InputError("every primitive must be given once, found one twice")
    if options.propose and (changes or options.clear):
        raise InputError("--propose gives no names: expected it alone, or names without it")
    if options.parts and not options.propose:
        raise InputError("--parts is for --propose: expected both")
    with progress_display() as progress:
        run = opened(options, progress)
        network = run.model.parse_network()
        if options.propose:
            _propose(options, console, run)
            return
    names: Mapping[int, str] = run.model.names
    if changes or options.clear:
        path = options.model or options.run
        folder = path if path.is_dir() else path.parent
        if options.clear:
            names = write_names(folder, network, {k: given for k, given in changes if given})
        else:
            names = change_names(folder, network, names, changes)
        if options.format == "table":
            say(console, f"written to {printable(str(folder / NAMES))}")
    _list(options, console, run, names)


def _list(options: Namespace, console: Console, run: "OpenedRun", names: Mapping[int, str]) -> None:
    from parse_dg.cli.show.tables import print_rows
    from parse_dg.deploy.names import called, to_text
    from parse_dg.explain.measures.structure_use import primitive_weights

    if options.format == "json":
        print_json(console, {"names": to_text(names)})
        return
    weights = primitive_weights(run.model)  # (C, K)
    best = weights.max(0)
    rows = [
        (called(k, names), percent(share), f"{printable(run.classes[c])} ({percent(most)})")
        for k, (share, most, c) in enumerate(
            zip(weights.mean(0).tolist(), best.values.tolist(), best.indices.tolist(), strict=True)
        )
    ]
    print_rows(console, ("primitive", "share of the classes' weight", "most in the class"), rows)
    say(
        console,
        "share: of a class's composition, what binds the primitive (a relation is shared equally by those that it "
        "binds); the mean over classes, and the class in which that is most",
        f"{plural(len(names), 'primitive')} of {weights.shape[1]} named; what they look like: "
        f"parse-dg figure faces {shlex.quote(str(options.run))}",
    )


def _propose(options: Namespace, console: Console, run: "OpenedRun") -> None:
    from parse_dg.explain.measures.proposals import OF_ONE_PART, propose_names

    found = propose_names(run, options.parts)
    if options.format == "json":
        print_json(console, {"proposals": [each.to_dict() for each in found]})
        return
    for each in found:
        share = f"in {percent(each.share)} of {plural(each.images, 'image')} (by chance {percent(each.by_chance)})"
        said = f"p{each.primitive} follows {each.part} {share}"
        say(console, f"{said}: {each.name}" if each.name else said)
    say(
        console,
        "images: those of the source domains that were held out of training; a name is proposed from 50% on, if "
        f"that is more than chance, for the {OF_ONE_PART} best primitives of a part",
        *_how(options, found),
    )


def _how(options: Namespace, found: "tuple[ProposedName, ...]") -> list[str]:
    named = " ".join(shlex.quote(f"p{each.primitive}={each.name}") for each in found if each.name)
    if not named:
        return ["no primitive follows a part in at least half of the images: no name is proposed"]
    return [f"nothing is named yet; to give these names: parse-dg name {shlex.quote(str(options.run))} {named}"]


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = add_command(commands, "name", name, "give primitives names that sentences and pictures then use")
    command.add_run("the folder of a run of parse, or a model file")
    command.add("names pN=NAME", "a primitive and its name; without one, its name is taken away", nargs="*")
    command.add("--clear", "take all names away first")
    command.add("--propose", "propose names of the parts that primitives follow, where these are known")
    command.add("--parts FOLDER", "with --propose, of a run on cub-dg: the folder of CUB-200-2011")
    command.add("--format", choices=("table", "json"))
    command.add_model()
