from .measure import RunMeasures as RunMeasures, measure_run as measure_run
