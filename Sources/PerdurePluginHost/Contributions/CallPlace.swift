import PerdureModel
import PerdureValue

/// Where a call stands in the engine, and what it may therefore use.
struct CallPlace: Sendable {
  /// The task at which the call is made.
  var task: TaskID?
  /// The call of the tool that it wraps.
  var tool: ToolCall?
  /// What a hook or section may look at; a hook at a task has a `HookContext`.
  var reads: (any ContributionReads)?
  /// The run of a task.
  var external: ExternalTaskCall?
  /// What a wrap is put around.
  var inner: InnerCall?
  /// The deadline of the call.
  var timer: CallTimer?
  /// Whether the plugin's code runs on the thread of whoever calls.
  var isInline = false
  /// Throws if a completion is not what belongs here.
  var check: (@Sendable (JSONObject) throws(BorderProblem) -> Void)?
  /// The images that the call has been shown without their bytes.
  let images = ImageTable()

  /// What the call may ask of the engine.
  var operations: (any CallOperations)? {
    if isInline { return nil }
    if let external { return external.operations }
    return (reads as? any OffersOperations)?.operations
      ?? tool?.invocation?.operations
  }

  /// What the engine says about the call.
  var port: (any ContributionPort)? {
    external ?? (reads as? any ContributionPort) ?? (tool?.host as? any ContributionPort)
  }
}
