from skillopt_mcp.api import Trained as Trained
from skillopt_mcp.api import evaluate as evaluate
from skillopt_mcp.api import train as train
from skillopt_mcp.backends.base import Backend as Backend
from skillopt_mcp.core.budgets import Caps as Caps
from skillopt_mcp.core.calls import Call as Call
from skillopt_mcp.core.calls import Message as Message
from skillopt_mcp.core.calls import Reply as Reply
from skillopt_mcp.core.calls import Rollout as Rollout
from skillopt_mcp.core.calls import Usage as Usage
from skillopt_mcp.core.errors import BadInput as BadInput
from skillopt_mcp.core.errors import CapReached as CapReached
from skillopt_mcp.core.errors import SkillOptError as SkillOptError
from skillopt_mcp.core.errors import Stopped as Stopped
from skillopt_mcp.core.results import Evaluated as Evaluated
from skillopt_mcp.core.tasks import NewTask as NewTask
from skillopt_mcp.tasks.environments.base import Environment as Environment
from skillopt_mcp.tasks.environments.base import Rolled as Rolled
from skillopt_mcp.training.config import Config as Config
from skillopt_mcp.training.progress import Progress as Progress

__version__: str
__all__: list[str]
