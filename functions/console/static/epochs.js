// What a task's record says of each epoch: when it was, how it ended, and which steps it dispatched.

// The current epoch comes last; it has no end of its own unless the task is finished.
export function epochsOf(task) {
  const closed = task.history.filter((entry) => entry.steps.length > 0);
  const current = {
    epoch: task.epoch,
    direction: task.direction,
    steps: task.steps,
    at: task.finished_at,
    event: task.finished_at ? task.state : null,
    who: null,
    reason: task.finished_at ? task.last_error : null,
    parked: task.parked,
    waitsUntil: Date.parse(task.not_before) > Date.now() ? task.not_before : null,
  };
  let began = task.submitted_at;
  return [...closed, current].map((entry) => {
    const epoch = { ...entry, began, bars: barsOf(entry) };
    began = entry.at;
    return epoch;
  });
}

// A step that an undo has dispatched keeps the time when it was begun, and tells only when it was undone.
function barsOf(entry) {
  const dispatched = entry.steps.filter((step) => step.epoch === entry.epoch && step.started_at !== null);
  return dispatched
    .filter((step) => step.state !== "NotStarted")
    .map((step) => {
      const undo = entry.direction === "undo";
      return {
        name: step.name,
        state: step.state,
        undo,
        from: undo ? null : step.started_at,
        to: step.finished_at && isOver(step) ? step.finished_at : null,
        completeBy: step.complete_by,
        error: step.error,
      };
    })
    .sort((one, other) => Date.parse(one.from ?? one.to ?? 0) - Date.parse(other.from ?? other.to ?? 0));
}

function isOver(step) {
  return step.state !== "Running" && step.state !== "Undoing";
}
