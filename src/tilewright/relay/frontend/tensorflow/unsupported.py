"""Why operators of TensorFlow are not imported, by what they belong to: the words of messages, and of docs/tensorflow_operators.md."""

from __future__ import annotations

import re

FAMILIES: tuple[tuple[str, str], ...] = (
    (
        r"^(Eager)?PyFunc(Stateless)?$",
        "it runs Python code of the model's author. Write it with TensorFlow's operators",
    ),
    (
        r"Dataset|Iterator|^Optional|Reader(V2)?$|^Reader|RecordInput|MemoryCache|SeedGenerator|IterationCounter|DistributedSave"
        r"|StatsAggr|ThreadPoolHandle|ompressElement|^CompositeTensorVariant|^Get(ElementAtIndex|Options)$",
        "it feeds data (tf.data). Name the tensors behind it as outputs of what is fed, or export the model from an input on",
    ),
    (
        r"TPU|Xla|Collective|Nccl|^(Send|Recv)$|Infeed|Outfeed|AllToAll|CrossReplica|Prelinearize|SparseCore|Minibatch|CooTensor"
        r"|Physical|^(RemoteCall|SyncDevice|WorkerHeartbeat|CheckPinned|GlobalIterId|ComputeBatchSize)|Cudnn",
        "it is for other devices, or for several machines. Export the model for CPUs",
    ),
    (r"BoostedTrees", "boosted trees of estimators are not supported"),
    (
        r"^Quantized|^Uniform(Quanti|Dequant|Requant)|Requanti[sz]|QuantizeDownAndShrink",
        "it is of older schemes of quantisation. Export floats, or a TFLite file",
    ),
    (
        r"(Resource)?(Sparse)?Apply|Grad(V\d|WithArgmax|Grad.*|A|Image|Boxes)?$|Backprop|^Accumul|Accumulator|CTCLoss|CandidateSampler"
        r"|^Sdca|ComputeAccidental|GradientWithShape|Gradient$|^SymbolicGradient|GradWithShape$|^KMC2|^Kmeans",
        "it belongs to training. Export what is run (model.export, or a signature)",
    ),
    (
        r"^Assign|^Scatter(Nd)?(Add|Sub|Mul|Div|Max|Min|Update)$|^ResourceScatter|CountUpTo|VariableInitialized|TemporaryVariable"
        r"|StridedSliceAssign|RefSelect|^(Restore|Save|MergeV2|Sharded)|^ImmutableConst$|^DestroyResourceOp$",
        "it changes, saves or restores variables, which a program has as they were saved",
    ),
    (
        r"HashTable|^InitializeTable|^LookupTable|LoadAndRemap|GenerateVocab|^TensorMap|^EmptyTensorMap$",
        "it changes tables while the model runs; tables that the model's initialisers fill are supported",
    ),
    (
        r"Queue|^(Ordered)?Map(Clear|Incomplete|Peek|Size|Stage|Unstage)|^(Un)?[Ss]tage|^Barrier|Mutex|^Stack(Push|Pop|Close|V2|$)"
        r"|^(Un)?[Bb]atch(Function)?$|TensorsMap$|^MapDefun$",
        "queues, and what batches calls, are not supported. Export the model from an input on",
    ),
    (
        r"Summary|^Debug|^ImportEvent$|^Fact$|^Timestamp$|^(Abort|ControlTrigger|FakeParam)$",
        "it is for logs and debugging; what only logs is left out where no output needs it",
    ),
    (
        r"^Stateful|^Rng|^RandomIndexShuffle$|^Stateless(RandomGammaV3|Parameterized|Sample)|^NonDeterministic|SampleDistorted"
        r"|^Fractional",
        "random numbers of this kind are not supported; tf.random.stateless_uniform and _normal are",
    ),
    (
        r"^(ReadFile|WriteFile|MatchingFiles|FileSystem\w*)$|Session|^(Decode|Encode)Proto",
        "it reads or writes files, or another process's state. Give its contents as an input",
    ),
    (
        r"^TensorArray(V2)?$|^TensorArray\w+",
        "tensor arrays of TensorFlow 0.x are not supported; export the graph again",
    ),
    (r"CSR|^SparseMatrix", "matrices in rows of compressed places are not supported; tf.sparse's operators are"),
)
"""(names, why)."""


def reason(op: str) -> str:
    """Why an operator that is not supported is not, where its kind says so."""
    return next((why for names, why in FAMILIES if re.search(names, op)), "")
