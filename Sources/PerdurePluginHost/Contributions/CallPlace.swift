import PerdureModel
import PerdureValue

/// Where a call stands in the engine, and what it may therefore use.
///
/// One object for all attempts of a call, because copies of all that it refers to would cost more than
/// the call itself.
final class CallPlace: Sendable {
  /// The task at which the call is made.
  let task: TaskID?
  /// The call of the tool that it wraps.
  let tool: ToolCall?
  /// What a hook or section may look at; a hook at a task has a `HookContext`.
  let reads: (any ContributionReads)?
  /// The run of a task.
  let external: ExternalTaskCall?
  /// What a wrap is put around.
  let inner: InnerCall?
  /// The images that the call has been shown without their bytes.
  let images = ImageTable()

  init(
    task: TaskID? = nil,
    tool: ToolCall? = nil,
    reads: (any ContributionReads)? = nil,
    external: ExternalTaskCall? = nil,
    inner: InnerCall? = nil
  ) {
    self.task = task
    self.tool = tool
    self.reads = reads
    self.external = external
    self.inner = inner
  }

  /// What the call may ask of the engine.
  var operations: (any CallOperations)? {
    if let external { return external.operations }
    return (reads as? any OffersOperations)?.operations
      ?? tool?.invocation?.operations
  }

  /// What the engine says about the call.
  var port: (any ContributionPort)? {
    external ?? (reads as? any ContributionPort) ?? (tool?.host as? any ContributionPort)
  }
}
