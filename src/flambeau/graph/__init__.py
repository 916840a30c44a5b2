from flambeau.graph._structure import *
from flambeau.graph._graph import Graph
from flambeau.graph._structure import Ref, DType, Buffer, Value, Node
from flambeau.graph._plan import *
