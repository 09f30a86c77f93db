"""Reasons for refusing operators of TensorFlow, by family, for messages and docs/tensorflow_operators.md."""

from __future__ import annotations

import re

FAMILIES: tuple[tuple[str, str], ...] = (
    (
        r"^(Eager)?PyFunc(Stateless)?$",
        "it runs Python code of the model's author. Write it with operators of TensorFlow",
    ),
    (
        r"Dataset|Iterator|^Optional|Reader(V2)?$|^Reader|RecordInput|MemoryCache|SeedGenerator|IterationCounter|DistributedSave"
        r"|StatsAggr|ThreadPoolHandle|ompressElement|^CompositeTensorVariant|^Get(ElementAtIndex|Options)$",
        "it feeds data (tf.data). Export the model with an input in its place",
    ),
    (
        r"TPU|Xla|Collective|Nccl|^(Send|Recv)$|Infeed|Outfeed|AllToAll|CrossReplica|Prelinearize|SparseCore|Minibatch|CooTensor"
        r"|Physical|^(RemoteCall|SyncDevice|WorkerHeartbeat|CheckPinned|GlobalIterId|ComputeBatchSize)|Cudnn",
        "it is for other devices or several machines. Export the model for a CPU",
    ),
    (r"BoostedTrees", "boosted trees of estimators are not supported"),
    (
        r"^Quantized|^Uniform(Quanti|Dequant|Requant)|Requanti[sz]|QuantizeDownAndShrink",
        "it belongs to an older scheme of quantisation. Export a float model or a TFLite file",
    ),
    (
        r"(Resource)?(Sparse)?Apply|Grad(V\d|WithArgmax|Grad.*|A|Image|Boxes)?$|Backprop|^Accumul|Accumulator|CTCLoss|CandidateSampler"
        r"|^Sdca|ComputeAccidental|GradientWithShape|Gradient$|^SymbolicGradient|GradWithShape$|^KMC2|^Kmeans",
        "it belongs to training. Export the inference part (model.export, or a signature)",
    ),
    (
        r"^Assign|^Scatter(Nd)?(Add|Sub|Mul|Div|Max|Min|Update)$|^ResourceScatter|CountUpTo|VariableInitialized|TemporaryVariable"
        r"|StridedSliceAssign|RefSelect|^(Restore|Save|MergeV2|Sharded)|^ImmutableConst$|^DestroyResourceOp$",
        "it changes, saves or restores variables, which are constants in a program",
    ),
    (
        r"HashTable|^InitializeTable|^LookupTable|LoadAndRemap|GenerateVocab|^TensorMap|^EmptyTensorMap$",
        "it changes a table during a run; only tables that initialisers fill are supported",
    ),
    (
        r"Queue|^(Ordered)?Map(Clear|Incomplete|Peek|Size|Stage|Unstage)|^(Un)?[Ss]tage|^Barrier|Mutex|^Stack(Push|Pop|Close|V2|$)"
        r"|^(Un)?[Bb]atch(Function)?$|TensorsMap$|^MapDefun$",
        "queues and batching of calls are not supported. Export the model with an input in their place",
    ),
    (
        r"Summary|^Debug|^ImportEvent$|^Fact$|^Timestamp$|^(Abort|ControlTrigger|FakeParam)$",
        "it is for logs and debugging. It is left out if no output needs it",
    ),
    (
        r"^Stateful|^Rng|^RandomIndexShuffle$|^Stateless(RandomGammaV3|Parameterized|Sample)|^NonDeterministic|SampleDistorted"
        r"|^Fractional",
        "random numbers of this kind are not supported; use tf.random.stateless_uniform or stateless_normal",
    ),
    (
        r"^(ReadFile|WriteFile|MatchingFiles|FileSystem\w*)$|Session|^(Decode|Encode)Proto",
        "it reads or writes files, or state of another process. Give the contents as an input",
    ),
    (
        r"^TensorArray(V2)?$|^TensorArray\w+",
        "tensor arrays of TensorFlow 0.x are not supported; export the graph with a newer version",
    ),
    (r"CSR|^SparseMatrix", "compressed sparse row matrices are not supported; use operators of tf.sparse"),
)
"""(regular expression of operator names, reason)."""


def reason(op: str) -> str:
    """The reason for refusing an operator; "" if it belongs to no family."""
    return next((why for names, why in FAMILIES if re.search(names, op)), "")
