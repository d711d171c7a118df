import { Parser } from 'htmlparser2'

const HIDDEN = new Set(['style', 'script', 'noscript', 'template', 'head', 'svg', 'iframe', 'object', 'textarea', 'select'])
const BLOCKS = new Set([
  ...['p', 'div', 'br', 'hr', 'ul', 'ol', 'li', 'dl', 'dt', 'dd', 'table', 'tr', 'section', 'article', 'header', 'footer', 'blockquote'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'pre', 'figure', 'figcaption', 'address', 'details', 'summary'],
])

/** Decodes entities, puts each block on a line, and drops style sheets and scripts. */
export function htmlToText(html: string): string {
  let text = ''
  let hidden = 0
  const parser = new Parser({
    onopentag: (name) => {
      if (HIDDEN.has(name)) hidden++
      else if (BLOCKS.has(name)) text += '\n'
      else if (name === 'td' || name === 'th') text += ' '
    },
    ontext: (piece) => {
      if (hidden === 0) text += piece
    },
    onclosetag: (name) => {
      if (HIDDEN.has(name)) hidden--
      else if (BLOCKS.has(name)) text += '\n'
    },
  })
  parser.end(html)
  return text
    .split('\n')
    .map((line) => line.replace(/[\s\u00a0]+/g, ' ').trim())
    .join('\n')
    .replace(/\n{2,}/g, '\n')
    .trim()
}

export function htmlToLine(html: string): string {
  return htmlToText(html).replaceAll('\n', ' ')
}

/** The first characters of a text. Like the store's limits, it counts code points, so an emoji stays whole. */
export function cutText(text: string, length: number): string {
  return text.length <= length ? text : [...text].slice(0, length).join('')
}
