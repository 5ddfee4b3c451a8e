package import PerdureModel
import PerdureValue

/// Models behind an OpenAI-compatible server, spoken to in Chat Completions.
///
/// A request is sent once: whether it is worth another attempt is the engine's decision.
package final class OpenAIProvider: ModelProvider {
  /// The dialect as assistant messages record it.
  package static let api = "openai-completions"
  /// Where requests go without a base URL.
  package static let defaultBaseURL = "https://api.openai.com/v1"

  private let name: String
  private let url: BaseURL
  private let key: APIKey
  private let client: HTTPClient
  private let limits: ProviderLimits
  private let contextWindow: Int
  private let maxTokens: Int
  private let clock: any HostClock

  /// Makes a provider called `name`; throws `invalidConfiguration` if the base URL is none.
  ///
  /// `contextWindow` and `maxTokens` are what the models behind it take and give, in tokens; 0 if that
  /// is not known. From the environment come the key, `SSL_CERT_FILE` and `SSL_CERT_DIR`. A missing key is a
  /// failure of each request, unless the server is on this machine.
  package init(
    name: String = "openai",
    baseURL: String = OpenAIProvider.defaultBaseURL,
    apiKeyVariable: String = "OPENAI_API_KEY",
    environment: [String: String],
    limits: ProviderLimits = ProviderLimits(),
    contextWindow: Int = 0,
    maxTokens: Int = 0,
    clock: any HostClock
  ) throws(PerdureError) {
    self.name = name
    url = try BaseURL(baseURL)
    key = APIKey(variable: apiKeyVariable, environment: environment)
    client = HTTPClient(trust: HTTPClient.Trust(environment: environment))
    self.limits = limits
    self.contextWindow = max(0, contextWindow)
    self.maxTokens = max(0, maxTokens)
    self.clock = clock
  }

  /// Returns a description of any model; the server alone knows which ones it has.
  package func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference.provider == name, !reference.modelId.isEmpty else { return nil }
    return ModelInfo(
      reference: reference,
      api: Self.api,
      contextWindow: contextWindow,
      maxTokens: maxTokens
    )
  }

  package func stream(_ request: ModelRequest) -> any ModelStream {
    let authorization: (name: String, value: String)?
    switch key.header(for: url) {
    case .success(let header): authorization = header
    case .failure(let failure): return EventStream([.failed(failure)])
    }
    var limits = limits
    if let timeout = request.streamOptions["timeoutMs"]?.int, timeout > 0 {
      limits.firstByteMs = timeout
    }
    var headers = [
      (name: "Content-Type", value: "application/json"),
      (name: "Accept", value: "text/event-stream"), (name: "User-Agent", value: "perdure"),
    ]
    if let authorization { headers.append(authorization) }
    do throws(ProviderFailure) {
      try Self.add(request.streamOptions["headers"]?.object ?? [:], to: &headers)
    } catch {
      return EventStream([.failed(error)])
    }
    var encoder = ChatRequestEncoder(request)
    if url.host == "api.openai.com" { encoder.maxTokensField = "max_completion_tokens" }
    let exchange = client.start(
      HTTPRequest(
        url: url.chatCompletions,
        headers: headers,
        body: encoder.body.encoded,
        connectTimeoutMs: limits.connectMs
      )
    )
    let tools = PromptState(replaying: request.messages).toolNames
    return ChatStream(exchange, tools: tools, key: key, clock: clock, limits: limits)
  }

  /// Adds header fields of the settings; one of the same name replaces ours.
  private static func add(
    _ fields: JSONObject,
    to headers: inout [(name: String, value: String)]
  ) throws(ProviderFailure) {
    for (key, value) in fields {
      let name = key.string
      guard let value = value.text, !name.isEmpty,
        name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }),
        value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 })
      else {
        throw ProviderFailure(
          .stop,
          "the header '\(name)' in the stream settings is not one that HTTP can carry"
        )
      }
      headers.removeAll { $0.name.lowercased() == name.lowercased() }
      headers.append((name: name, value: value))
    }
  }
}
