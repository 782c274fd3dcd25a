#!/usr/bin/env bash
# Quantizes a checkpoint in a Slurm array: each task writes its share of the files, the last one the index.
#
#     sbatch samples/quantize_array.sh MODEL/ QUANTIZED/ CONFIG
#
# A task that is killed or requeued goes on where it was: files that are whole are kept.
#SBATCH --job-name=slipway-quantize
#SBATCH --array=0-7
#SBATCH --cpus-per-task=4
#SBATCH --mem=1G
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

[[ $# -eq 3 ]] || { echo "usage: $0 MODEL/ QUANTIZED/ CONFIG" >&2; exit 2; }
exec "${SLIPWAY:-slipway}" quantize "$1" -o "$2" --config "$3" --threads "${SLURM_CPUS_PER_TASK:-1}" --quiet
