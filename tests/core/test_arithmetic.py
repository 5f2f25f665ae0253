"""Digests of operations are the same in every process and name the operation that differs."""

import json
import subprocess
import sys

from icl.core import arithmetic

SAYS = "import json; from icl.core import arithmetic; print(json.dumps(arithmetic.record()))"


def test_the_record_names_the_machine_and_every_process_has_the_same_digests() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYS], capture_output=True, text=True, check=True, timeout=300
    )
    ours = arithmetic.record()
    theirs = json.loads(done.stdout)
    assert ours["processor"] and ours["units"] and set(ours["settings"]) == set(arithmetic.SETTINGS)
    assert arithmetic.first_difference(ours, theirs) == ""
    assert arithmetic.digest(ours) == arithmetic.digest(theirs)
    operations = ours["operations"]
    assert len(set(operations.values())) == len(operations)
    others = {"numpy QR": "0", "torch softmax float32": "0"}
    changed = ours | {"operations": operations | others}
    assert arithmetic.first_difference(ours, changed) == "numpy QR"
    assert arithmetic.digest(changed) != arithmetic.digest(ours)
