#!/bin/sh
# Slurm: `sbatch --array=1-20 slurm.sh` starts 20 workers, which end when nothing is queued. AH_STORE and the model's key
# come from the environment of sbatch. A job that is cancelled, or reaches its time, hands its runs on.
#SBATCH --job-name=ah-worker
#SBATCH --time=12:00:00
#SBATCH --cpus-per-task=4
#SBATCH --signal=TERM@30
exec ah worker --concurrency 4 --until-idle
