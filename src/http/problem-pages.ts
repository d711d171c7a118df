import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Type } from 'typebox'
import { type ErrorCode, notFound } from '../errors.ts'
import { defineRoute } from './define-route.ts'
import type { HttpServer } from './http-server.ts'
import { PROBLEMS } from './problem.ts'

const DOCUMENT = new URL('../../docs/shop/errors.md', import.meta.url)
const ROW = /^\| `(\w+)` \| \d{3} \| ([^|]+) \| ([^|]+) \|$/gm
const STYLE = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}
dt{font-weight:600;margin-top:1rem}dd{margin:0}`
const POLICY = `default-src 'none'; style-src 'sha256-${hash('sha256', STYLE, 'base64')}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Adds `GET /problems/{code}`, the page of a problem's `type`, with the text of docs/shop/errors.md. */
export function problemPages(server: HttpServer): void {
  let pages: ReadonlyMap<string, string> | undefined
  defineRoute(
    server,
    'GET /problems/:code',
    { access: 'public', cost: 'memory', isReadableByAnyOrigin: true, params: Type.Object({ code: Type.String() }) },
    async (request, reply) => {
      pages ??= renderPages()
      const page = pages.get(request.params.code)
      if (page === undefined) throw notFound('problem')
      return reply
        .headers({ 'cache-control': 'public, max-age=3600', 'content-security-policy': POLICY })
        .type('text/html; charset=utf-8')
        .send(page as never)
    },
  )
}

function renderPages(): ReadonlyMap<string, string> {
  const rows = readFileSync(DOCUMENT, 'utf8').matchAll(ROW)
  return new Map([...rows].map(([, code = '', meaning = '', remedy = '']) => [code, render(code as ErrorCode, meaning, remedy)]))
}

function render(code: ErrorCode, meaning: string, remedy: string): string {
  const { status, title } = PROBLEMS[code]
  const entries = [
    ['Code', `<code>${code}</code>`],
    ['Status', status],
    ['Meaning', toHtml(meaning)],
    ['What a client does', toHtml(remedy)],
  ]
  return (
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>` +
    `<link rel="icon" href="data:,"><style>${STYLE}</style><main><h1>${title}</h1>` +
    `<dl>${entries.map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join('')}</dl></main></html>`
  )
}

/** Text with code in backticks, and links whose text is enough here. */
function toHtml(markdown: string): string {
  const escaped = markdown.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
  return escaped.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1').replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}
