"""PARSE-DG: image classifiers that keep working on domains they never saw, and show why."""
