public import PerdureModel
import PerdureProviders

/// The providers that come with Perdure.
public enum Models {
  /// The model that a faux script plays unless another name is wanted.
  public static let fauxModel = ModelReference(provider: "faux", modelId: "faux-1")
  /// The variable that holds the key unless another one is named.
  public static let defaultKeyVariable = "OPENAI_API_KEY"
  /// The provider that needs no base URL.
  public static let defaultProvider = "openai"

  /// Returns a provider that plays the script in a file; it needs no network and no key.
  ///
  /// Throws `invalidInput` with file, line and what was expected if the script has an error.
  public static func faux(
    scriptAt path: String,
    clock: any HostClock = SystemClock()
  ) throws(PerdureError) -> any ModelProvider {
    try play(scriptAt: path, clock: clock).models
  }

  /// Returns the same with what the script says is to be asked when a plugin is tested with it.
  package static func play(
    scriptAt path: String,
    clock: any HostClock = SystemClock()
  ) throws(PerdureError) -> (models: any ModelProvider, prompt: String?) {
    let bytes = try HostText.file(at: path, called: "the faux script")
    let script = try FauxScript(parsing: bytes, name: path)
    return (FauxProvider(script: script, clock: clock), script.prompt)
  }

  /// Returns the models behind an OpenAI-compatible server, as the provider `name`.
  ///
  /// Without a base URL that is OpenAI's own. The key is in the named variable of the environment
  /// and is never stored. `contextWindow` and `maxTokens` are what the models take and give, in tokens;
  /// without the window, conversations are summarized only once a model refuses them. Throws `invalidConfiguration` if the base URL is none.
  public static func openAI(
    name: String = Models.defaultProvider,
    baseURL: String? = nil,
    keyVariable: String = Models.defaultKeyVariable,
    contextWindow: Int? = nil,
    maxTokens: Int? = nil,
    clock: any HostClock = SystemClock()
  ) throws(PerdureError) -> any ModelProvider {
    var environment: [String: String] = [:]
    for variable in [keyVariable, "SSL_CERT_FILE", "SSL_CERT_DIR"] {
      environment[variable] = HostText.variable(variable)
    }
    return try OpenAIProvider(
      name: name,
      baseURL: baseURL ?? OpenAIProvider.defaultBaseURL,
      apiKeyVariable: keyVariable,
      environment: environment,
      contextWindow: contextWindow ?? 0,
      maxTokens: maxTokens ?? 0,
      clock: clock
    )
  }
}
