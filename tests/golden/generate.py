"""Write the golden bytes again: `python -m tests.golden.generate` from the root of the checkout.

Kafka 4.3.1 prints every message in every version it has; 3.9.1 adds the versions and messages
that 4.0 removed. Only requests and responses are taken from it: the keys of stored records meant
something else there by the same version. The result is committed, so that the comparison needs
no Java.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.kafka_harness.distribution import CURRENT, ZOOKEEPER_ERA, jars
from tests.kafka_harness.java import run_source

SOURCE = Path(__file__).with_name("GoldenBytes.java")
GOLDEN = Path(__file__).with_name("messages.jsonl.gz")


def generate() -> list[str]:
    """Return all lines; where two versions of Kafka print the same thing, the newer one's."""
    known: dict[tuple[str, int, str], str] = {}
    for kafka in (CURRENT, ZOOKEEPER_ERA):
        output = run_source(kafka, SOURCE, jars(kafka), timeout_s=120)
        for line in output.lines:
            row = json.loads(line)
            if kafka != CURRENT and not row["message"].endswith(("Request", "Response")):
                continue
            known.setdefault((row["message"], row["version"], row["variant"]), line)
    return [known[key] for key in sorted(known)]


def main() -> None:
    lines = generate()
    text = "".join(f"{line}\n" for line in lines).encode()
    # Without a name and a time in its header the same text makes the same file.
    GOLDEN.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{len(lines)} lines, {GOLDEN.stat().st_size} bytes: {GOLDEN}")


if __name__ == "__main__":
    main()
