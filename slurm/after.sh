# What a batch script does after the end of its job: it puts it back into the queue if the job has
# left the file $again, which names the nodes to stay off (stop.requeue). It runs outside of any
# container, which therefore needs no SLURM. SLURM answers a requeue by sending TERM to the job, and
# changes the nodes of waiting jobs only.
code=$?
id="${again##*-}"
if [ -e "$again" ]; then
  trap '' TERM
  nodes=$(cat "$again")
  rm "$again"
  scontrol requeue "$id" || echo "job $id saved, but is not requeued; submit again" >&2
  [ -z "$nodes" ] || scontrol update JobId="$id" ExcNodeList="$nodes"
fi
exit "$code"
