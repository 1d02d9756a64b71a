"""Where the jobs of a sweep run: processes of this machine, Ray, SLURM."""
