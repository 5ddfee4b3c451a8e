import PerdureModel
import PerdureValue

extension Usage {
  /// Reads the token counts of a Chat Completions answer.
  ///
  /// There `prompt_tokens` includes what came from or went to the cache; here it does not.
  init(chatCompletions json: JSON) {
    self.init()
    func count(_ value: JSON?) -> Int64 {
      min(max(value?.int ?? 0, 0), Identifier<Usage>.greatest)
    }
    let prompt = json["prompt_tokens_details"]
    cacheRead = count(prompt?["cached_tokens"] ?? json["prompt_cache_hit_tokens"])
    cacheWrite = count(prompt?["cache_write_tokens"])
    input = max(0, count(json["prompt_tokens"]) - cacheRead - cacheWrite)
    output = count(json["completion_tokens"])
    let reasoning = json["completion_tokens_details"]?["reasoning_tokens"]
    if reasoning?.int != nil { self.reasoning = count(reasoning) }
    let total = count(json["total_tokens"])
    totalTokens = total > 0 ? total : input + output + cacheRead + cacheWrite
  }
}
