from localjudge.api import RunPair as RunPair
from localjudge.api import calibrate as calibrate
from localjudge.api import evaluate as evaluate
from localjudge.api import evaluate_pair as evaluate_pair
from localjudge.engine.scripted import ScriptedEngine as ScriptedEngine
from localjudge.errors import DataError as DataError
from localjudge.errors import InputError as InputError
from localjudge.errors import LocaljudgeError as LocaljudgeError
from localjudge.errors import MissingRun as MissingRun
from localjudge.errors import ModelError as ModelError
from localjudge.errors import OutOfResource as OutOfResource
from localjudge.errors import RunDirectoryError as RunDirectoryError
from localjudge.errors import UnfinishedRun as UnfinishedRun
from localjudge.metrics.criterion import Criterion as Criterion
from localjudge.metrics.metric import Metric as Metric
from localjudge.open_judge import Judge as Judge
from localjudge.run import Run as Run
from localjudge.types import Sample as Sample

__version__: str
__all__: list[str]
