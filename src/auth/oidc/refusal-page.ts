import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../../errors.ts'
import { PROBLEMS, REALM } from '../../http/problem.ts'
import { type Language, preferredLanguage } from '../../language.ts'

const STYLE = ':root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem}'
const POLICY = `default-src 'none'; style-src 'sha256-${hash('sha256', STYLE, 'base64')}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const WORDS: Readonly<Record<Language, { title: string; text: string; back: string }>> = {
  en: { title: 'You are not signed in', text: 'Go back to the shop, and begin the sign-in again there.', back: 'Back to the shop' },
  de: {
    title: 'Sie sind nicht angemeldet',
    text: 'Gehen Sie zurück zum Shop, und beginnen Sie die Anmeldung dort noch einmal.',
    back: 'Zurück zum Shop',
  },
  fr: {
    title: 'Vous n’êtes pas connecté',
    text: 'Retournez à la boutique et recommencez la connexion depuis celle-ci.',
    back: 'Retour à la boutique',
  },
  es: { title: 'No ha iniciado sesión', text: 'Vuelva a la tienda y empiece allí de nuevo.', back: 'Volver a la tienda' },
}

/**
 * Answers browsers with a page in plain language, and other clients with the problem as JSON. `home` is the shop's
 * page; null if there are several.
 */
export function refusalPages(home: string | null) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    if (!(error instanceof AppError) || !/\btext\/html\b/.test(request.headers.accept ?? '')) throw error
    const language = preferredLanguage(request.headers['accept-language']) ?? 'en'
    const { status } = PROBLEMS[error.code]
    if (status === 401) reply.header('www-authenticate', REALM)
    reply
      .code(status)
      .headers({
        ...error.details.headers,
        'cache-control': 'no-store',
        'content-language': language,
        'content-security-policy': POLICY,
        'referrer-policy': 'no-referrer',
        vary: 'Accept, Accept-Language',
      })
      .type('text/html; charset=utf-8')
      .serializer((page: unknown) => page as string)
      .send(render(home, language))
  }
}

function render(home: string | null, language: Language): string {
  const { title, text, back } = WORDS[language]
  const link = home === null ? '' : `<p><a href="${home.replaceAll('&', '&amp;').replaceAll('"', '&quot;')}">${back}</a></p>`
  return (
    `<!doctype html><html lang="${language}"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>` +
    `<link rel="icon" href="data:,"><style>${STYLE}</style><main><h1>${title}</h1><p>${text}</p>${link}</main></html>`
  )
}
