public import PerdureValue

/// Tokens and money of one request or of several together.
public struct Usage: Sendable, Equatable {
  /// Money per kind of token, in US dollars.
  public struct Cost: Sendable, Equatable {
    public var input = 0.0
    public var output = 0.0
    public var cacheRead = 0.0
    public var cacheWrite = 0.0
    public var total = 0.0

    /// Makes a cost of nothing.
    public init() {}
  }

  public var input: Int64 = 0
  public var output: Int64 = 0
  public var cacheRead: Int64 = 0
  public var cacheWrite: Int64 = 0
  public var totalTokens: Int64 = 0
  public var cost = Cost()
  /// Absent until somebody reports it.
  public var cacheWrite1h: Int64?
  /// Absent until somebody reports it.
  public var reasoning: Int64?

  /// Makes a usage of nothing.
  public init() {}

  /// Reads the persisted form; what is missing or no number counts as nothing.
  public init(json: JSON) {
    func count(_ key: JSONString) -> Int64 { json[key]?.int ?? 0 }
    func money(_ key: JSONString) -> Double { json["cost"]?[key]?.double ?? 0 }
    input = count("input")
    output = count("output")
    cacheRead = count("cacheRead")
    cacheWrite = count("cacheWrite")
    totalTokens = count("totalTokens")
    cacheWrite1h = json["cacheWrite1h"]?.int
    reasoning = json["reasoning"]?.int
    cost.input = money("input")
    cost.output = money("output")
    cost.cacheRead = money("cacheRead")
    cost.cacheWrite = money("cacheWrite")
    cost.total = money("total")
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = [
      "input": .int(input), "output": .int(output), "cacheRead": .int(cacheRead),
      "cacheWrite": .int(cacheWrite), "totalTokens": .int(totalTokens),
    ]
    if let cacheWrite1h { object["cacheWrite1h"] = .int(cacheWrite1h) }
    if let reasoning { object["reasoning"] = .int(reasoning) }
    object["cost"] = [
      "input": .double(cost.input), "output": .double(cost.output),
      "cacheRead": .double(cost.cacheRead), "cacheWrite": .double(cost.cacheWrite),
      "total": .double(cost.total),
    ]
    return .object(object)
  }

  /// Adds every counter of `other`; sums stay at the greatest integer instead of overflowing.
  public mutating func add(_ other: Usage) {
    func sum(_ left: Int64, _ right: Int64) -> Int64 {
      let (value, overflow) = left.addingReportingOverflow(right)
      return overflow ? (right > 0 ? .max : .min) : value
    }
    input = sum(input, other.input)
    output = sum(output, other.output)
    cacheRead = sum(cacheRead, other.cacheRead)
    cacheWrite = sum(cacheWrite, other.cacheWrite)
    totalTokens = sum(totalTokens, other.totalTokens)
    if let more = other.cacheWrite1h { cacheWrite1h = sum(cacheWrite1h ?? 0, more) }
    if let more = other.reasoning { reasoning = sum(reasoning ?? 0, more) }
    cost.input += other.cost.input
    cost.output += other.cost.output
    cost.cacheRead += other.cost.cacheRead
    cost.cacheWrite += other.cost.cacheWrite
    cost.total += other.cost.total
  }
}
