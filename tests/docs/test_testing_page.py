"""What docs/testing.md shows works: its examples are tests, and are run as such."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_examples_of_the_page_on_testing_pass(tmp_path):
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 6
    for number, example in enumerate(examples):
        (tmp_path / f"test_example_{number}.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "moldau.testing.plugin",
               "--rootdir", str(tmp_path), str(tmp_path)]  # fmt: skip
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "6 passed" in ended.stdout, ended.stdout
