import { readFile } from 'node:fs/promises'
import { Type } from 'typebox'
import { notFound } from '../../errors.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { readOnce } from '../../http/read-once.ts'

/** One drawing a line, in `currentColor` and fixed colours, of 200 by 200 units. */
const DRAWINGS = './sample-pictures.svg'

/** The colours in picture names. */
const COLOURS: ReadonlyMap<string, string> = new Map([
  ['amber', '#d9932f'],
  ['black', '#34383b'],
  ['blue', '#6a8fae'],
  ['brass', '#c3a04d'],
  ['charcoal', '#50575c'],
  ['copper', '#b87348'],
  ['cream', '#ecdfc6'],
  ['green', '#3f6b57'],
  ['grey', '#9aa1a5'],
  ['indigo', '#46568a'],
  ['lavender', '#9c8fb8'],
  ['moss', '#74865a'],
  ['mustard', '#cfa23c'],
  ['navy', '#37506b'],
  ['oak', '#c69c6d'],
  ['oat', '#d8c7a8'],
  ['plum', '#7d5a6d'],
  ['red', '#b5523f'],
  ['rose', '#cf9a93'],
  ['sage', '#8ba38a'],
  ['sand', '#d3b98f'],
  ['slate', '#6f7f8c'],
  ['steel', '#a9b3b8'],
  ['teal', '#4f8583'],
  ['terracotta', '#c4714b'],
  ['walnut', '#7d5a3f'],
  ['white', '#f7f4ee'],
])

/**
 * `GET /sample-pictures/mug.sage.svg`: the sample catalogue's pictures, which an example shop on another origin may
 * show.
 */
export function samplePictureRoutes(server: HttpServer): void {
  const readDrawings = readOnce(async (file) => drawingsOf(await readFile(new URL(file, import.meta.url), 'utf8')))
  const params = Type.Object({ file: Type.String() })

  defineRoute(server, 'GET /sample-pictures/:file', { access: 'public', cost: 'memory', params }, async (request, reply) => {
    const [, kind = '', name = ''] = /^([a-z-]+)\.([a-z]+)\.svg$/.exec(request.params.file) ?? []
    const drawing = (await readDrawings(DRAWINGS)).get(kind)
    const colour = COLOURS.get(name)
    if (drawing === undefined || colour === undefined) throw notFound('picture')
    return reply
      .headers({ 'cache-control': 'public, max-age=86400', 'content-security-policy': "default-src 'none'; frame-ancestors 'none'" })
      .type('image/svg+xml')
      .send(pictureOf(drawing, colour) as never)
  })
}

function drawingsOf(svg: string): Map<string, string> {
  return new Map([...svg.matchAll(/^<g id="([a-z-]+)">(.*)<\/g>$/gm)].map(([, kind = '', drawing = '']) => [kind, drawing]))
}

/** A drawing in a colour, on a slightly tinted background. */
function pictureOf(drawing: string, colour: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="800" height="800" viewBox="10 12 180 180" color="${colour}" stroke-linecap="round" stroke-linejoin="round"><path fill="#ebe6dc" d="M0 0h200v200H0z"/><path fill="currentColor" fill-opacity=".15" d="M0 0h200v200H0z"/>${drawing}</svg>`
}
