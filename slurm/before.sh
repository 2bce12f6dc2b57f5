# What a batch script asks before it starts its job.
again="$again${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"
rm -f "$again"  # of an attempt that was killed
export RLVR_END=$(squeue -h -j "$SLURM_JOB_ID" -o %e)
if ! command -v scontrol > /dev/null; then
  echo "scontrol=: not on the PATH of this node, and a job goes back into the queue by it;" \
    "add it in setup of the profile" >&2
  exit 1
fi
