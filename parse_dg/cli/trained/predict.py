"""`parse-dg predict`: the classes of images, by a trained model of any method."""

from argparse import Namespace

from parse_dg.cli.options import Commands, Console, add_command


def predict(options: Namespace, console: Console) -> None:
    """Print the class that a trained model gives each image, with its probability. Images may be
    of any size; they are resized as in training and evaluation.

    An image that cannot be read is named on standard error, the others are predicted, and the exit code is
    1. Standard output has the answers alone, in the order of the images, as they come.

    For example:
      parse-dg predict runs/blueprints/parse/sketch/seed0 drawing.png --explain
      parse-dg predict RUN photos --format csv > classes.csv
      find photos -name '*.jpg' | parse-dg predict RUN - --format jsonl
    """
    from parse_dg.cli.show.predictions import predict_images

    predict_images(options, console)


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = add_command(commands, "predict", predict, "the classes of images, by a trained model")
    command.add_run()
    words = "an image file, a folder (with all below it, by name), or - for a path a line on standard input"
    command.add("images IMAGE", words, nargs="+")
    command.add("--top K", "how many classes to name", 3)
    command.add_format("table", "jsonl", "csv", "csv-raw")
    command.add("--explain", "add the strongest relations in words (models of PARSE)")
    command.add("--pictures FOLDER", "draw an explanation of each image there (models of PARSE)")
    command.add_model()
    command.add("--batch N", "images predicted at once", 128)
