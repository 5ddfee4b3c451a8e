import PerdureCodingTools
public import PerdureModel

extension Extension {
  /// The extension `coding-tools`, with which a model works on the files of its environment: `read`,
  /// `write`, `edit`, `ls`, `grep` and `glob`; with `shell` also `bash`, for environments that run
  /// commands.
  ///
  /// All of them use the environment of the conversation alone, and fail where there is none.
  public static func codingTools(
    shell: Bool,
    _ options: CodingToolOptions = CodingToolOptions()
  ) -> Extension {
    Extension(name: "coding-tools", tools: CodingTools.tools(shell: shell, options))
  }
}
