// DuckDB uses PostgreSQL's scanner: identifiers may contain dollars, CR and LF end a line, and comments nest.
const NOT_IN_NAME = '(?<![\\w$\\u0080-\\uffff])'
const TAG = '\\$((?:[A-Za-z_\\u0080-\\uffff][\\w\\u0080-\\uffff]*)?)\\$'
const TOKEN = new RegExp(
  [
    '(?<name>"(?:[^"]|"")*(?:"|$))',
    `(?<value>${NOT_IN_NAME}[eE]'(?:[^'\\\\]|\\\\[^]|'')*(?:'|$)|'(?:[^']|'')*(?:'|$)|${NOT_IN_NAME}${TAG}[^]*?(?:\\$\\3\\$|$)|\\d{3,})`,
    '(?<line>--[^\\n\\r]*)',
    '(?<block>/\\*)',
  ].join('|'),
  'g',
)
const COMMENT_EDGE = /\/\*|\*\//g

/** Removes comments and typed values, but never executed text, even if a name contains a quote. */
export function withoutValues(text: string): string {
  let shown = ''
  let at = 0
  TOKEN.lastIndex = 0
  for (let token = TOKEN.exec(text); token !== null; token = TOKEN.exec(text)) {
    const { name, value, block } = token.groups ?? {}
    shown += text.slice(at, token.index) + (name ?? (value === undefined ? ' ' : "'…'"))
    at = block === undefined ? TOKEN.lastIndex : endOfComment(text, token.index)
    TOKEN.lastIndex = at
  }
  return (shown + text.slice(at)).replace(/\s+/g, ' ').trim()
}

function endOfComment(text: string, start: number): number {
  let depth = 0
  COMMENT_EDGE.lastIndex = start
  for (let edge = COMMENT_EDGE.exec(text); edge !== null; edge = COMMENT_EDGE.exec(text)) {
    depth += edge[0] === '/*' ? 1 : -1
    if (depth === 0) return COMMENT_EDGE.lastIndex
  }
  return text.length
}
