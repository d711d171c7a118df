import { Refusal, SignedOut } from './api.ts'
import { accessToken, addressOf } from './session.ts'

export interface UploadOptions {
  contentType: string
  signal: AbortSignal
  /** Called with the part of the file that was sent, 0 to 1. */
  onProgress: (part: number) => void
}

/** Sends a file and returns the text of the answer. `fetch` does not tell how much it has sent. Throws as `send` in api.ts does. */
export async function upload(path: string, file: Blob, { contentType, signal, onProgress }: UploadOptions): Promise<string> {
  const token = await accessToken()
  if (token === null) throw new SignedOut('Sign in.')
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    signal.addEventListener('abort', abort, { once: true })
    request.open('POST', addressOf(path))
    request.setRequestHeader('authorization', `Bearer ${token}`)
    request.setRequestHeader('content-type', contentType)
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total))
    request.addEventListener('load', () => {
      if (request.status === 200) return resolve(request.responseText)
      if (request.status === 401) return reject(new SignedOut('Your session has ended. Sign in again.'))
      const isProblem = request.getResponseHeader('content-type')?.startsWith('application/problem+json')
      reject(
        isProblem
          ? new Refusal(JSON.parse(request.responseText), request.getResponseHeader('retry-after'))
          : new TypeError(`the store answered ${request.status}`),
      )
    })
    request.addEventListener('error', () => reject(new TypeError('the connection was lost')))
    request.addEventListener('abort', () => reject(new DOMException('The upload was cancelled.', 'AbortError')))
    request.addEventListener('loadend', () => signal.removeEventListener('abort', abort))
    request.send(file)
  })
}
