"""Reads event files with TensorBoard's own reader and holds them against the runs' logs. Usage: read_events.py RUN..."""
import json
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

FIELDS = {"loss": "loss/training", "valid_loss": "loss/validation", "accuracy": "accuracy/training",
          "valid_accuracy": "accuracy/validation", "lr": "learning_rate", "samples_per_s": "samples_per_s"}


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


for run in sys.argv[1:]:
    events = EventAccumulator(run, size_guidance={"scalars": 0})
    events.Reload()
    log = [json.loads(line) for line in open(run + "/log.jsonl")]
    for field, tag in FIELDS.items():
        given = [(line["step"], line[field]) for line in log if field in line]
        read = [(event.step, event.value) for event in events.Scalars(tag)]
        # The log has nine digits.
        assert [step for step, _ in given] == [step for step, _ in read], (run, tag, given[-3:], read[-3:])
        assert all(abs(a - b) <= 2e-7 * max(1, abs(a)) for (_, a), (_, b) in zip(given, read)), (run, tag)
    for worker in range(4):
        idle = events.Scalars("idle/worker_%d" % worker)
        assert idle and all(0 <= event.value <= 1 for event in idle), (run, idle)
    print(run, sorted(events.Tags()["scalars"]))
