import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// The faux scripts of a plugin, each as a model of its own: `faux/NAME` plays the script `NAME`.
final class ScriptShelf: ModelProvider {
  private let scripts = Mutex<[String: any ModelProvider]>([:])
  /// What is played by a model that was never put here, which nobody can choose.
  private let other: any ModelProvider

  /// Makes a shelf with one script, which also plays `faux/faux-1`.
  init(first: any ModelProvider) {
    other = first
    scripts.withLock { $0[Models.fauxModel.modelId] = first }
  }

  /// Puts a script here, in the place of the one with that name, and returns its model.
  func put(_ script: any ModelProvider, as name: String) -> ModelReference {
    scripts.withLock { $0[name] = script }
    return ModelReference(provider: Models.fauxModel.provider, modelId: name)
  }

  func model(_ reference: ModelReference) -> ModelInfo? {
    scripts.withLock { $0[reference.modelId] }?.model(reference)
  }

  func stream(_ request: ModelRequest) -> any ModelStream {
    script(of: request.model).stream(request)
  }

  func fetchDeferred(_ handle: JSON, of model: ModelInfo) -> any ModelStream {
    script(of: model).fetchDeferred(handle, of: model)
  }

  func cancelDeferred(_ handle: JSON, of model: ModelInfo) async throws {
    try await script(of: model).cancelDeferred(handle, of: model)
  }

  private func script(of model: ModelInfo) -> any ModelProvider {
    scripts.withLock { $0[model.reference.modelId] } ?? other
  }
}
