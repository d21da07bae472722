"""Put the lessons into the wheel; everything else about the package stands in pyproject.toml.

The notebooks live in lessons/ at the top of the repository, outside every import package. A wheel carries them as
specdec_teach/_lessons, so that `specdec-teach lab` finds them wherever the project is installed. An editable install
needs no copy: it reads lessons/ itself. This file knows nothing about what is in a lesson.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithLessons(build_py):
    """The ordinary build, and the notebooks after it."""

    def run(self) -> None:
        """Build the packages, then copy lessons/*.ipynb beside them unless the install is editable."""
        super().run()
        if not self.editable_mode:
            for source, target in self._lessons().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """List what the build writes, the lessons included."""
        return [*super().get_outputs(include_bytecode), *self._lessons().values()]

    def _lessons(self) -> dict[str, str]:
        folder = Path(self.build_lib, "specdec_teach", "_lessons")
        return {str(path): str(folder / path.name) for path in sorted(Path("lessons").glob("*.ipynb"))}


setup(cmdclass={"build_py": BuildWithLessons})
