from pathlib import Path

import pytest
from project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)
