import { Refusal, SignedOut } from './api.ts'
import { actions, create, download, link, replaceChildren, table } from './dom.ts'
import { field, sendForm } from './form.ts'
import { type CatalogueFile, type ImportOutcome, readCatalogueFile, readOutcome, readText, refusedText, sizeText } from './import-file.ts'
import type { ScreenContext } from './screen.ts'
import { accessToken, addressOf } from './session.ts'

/** More are in the file of refused lines. */
const SHOWN_LINES = 500

/** Imports a catalogue file: its products are created and changed by their SKU, line by line. */
export function showImport(root: HTMLElement, { signal, tell }: ScreenContext): void {
  const input = create('input', { type: 'file', name: 'file', required: true, accept: '.ndjson,.jsonl,.csv,.tsv,.txt' })
  const progress = create('progress', { max: 1, value: 0, hidden: true, attributes: { 'aria-label': 'Sent' } })
  const state = create('p', { attributes: { role: 'status' } })
  const results = create('div')
  const cancel = create('button', { type: 'button', hidden: true }, 'Cancel')
  let running = new AbortController()

  async function send(): Promise<void> {
    const [file] = input.files ?? []
    if (file === undefined) throw new Error('Choose a file.')
    replaceChildren(results)
    tell('')
    const catalogue = await readCatalogueFile(file)
    running = new AbortController()
    progress.hidden = cancel.hidden = false
    progress.value = 0
    try {
      const answer = await upload('/admin/products/import', file, {
        contentType: catalogue.contentType,
        signal: AbortSignal.any([signal, running.signal]),
        onProgress: (part) => {
          progress.value = part
          const sent = `${Math.floor(part * 100)} % of ${sizeText(file.size)}`
          state.textContent = part < 1 ? `${sent} sent.` : `${sent} sent, waiting for the results …`
        },
      })
      const outcome = readOutcome(answer)
      showResults(outcome, catalogue)
      if (outcome.fault !== null) throw new Error(outcome.fault)
    } catch (error) {
      throw running.signal.aborted || error instanceof TypeError ? new Error(`${explainEnd(running.signal.aborted)} ${AGAIN}`) : error
    } finally {
      progress.hidden = cancel.hidden = true
      state.textContent = ''
    }
  }

  function showResults(outcome: ImportOutcome, catalogue: CatalogueFile): void {
    const { created, updated, unchanged, failed } = outcome.counts
    tell(`${catalogue.file.name}: ${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} refused.`)
    if (failed === 0) return
    const refused = outcome.lines.flatMap((line) => ('error' in line ? [[String(line.line), line.error]] : []))
    const downloadButton = create('button', { type: 'button' }, 'Download the refused lines')
    downloadButton.addEventListener('click', async () => {
      const { file, contentType } = catalogue
      download(`refused-${file.name}`, new Blob([refusedText(await readText(file), outcome, catalogue)], { type: contentType }))
    })
    replaceChildren(
      results,
      create('h3', {}, 'Refused lines'),
      actions(downloadButton),
      table('Refused lines', [{ number: 'Line' }, 'Reason'], refused.slice(0, SHOWN_LINES)),
      refused.length > SHOWN_LINES ? create('p', {}, `And ${refused.length - SHOWN_LINES} more: the download has all.`) : null,
    )
  }

  cancel.addEventListener('click', () => running.abort())
  const hint = 'NDJSON, or CSV with a header (sku, name, category, price, …; docs/shop/stock.md). Each line is a whole product.'
  const form = sendForm({ submit: 'Import', signal, onSubmit: send }, field('File', input, hint), progress, state, cancel)
  root.append(
    link('#products', '← All products'),
    create('h2', {}, 'Products: import'),
    create('section', { class: 'card' }, form),
    results,
  )
}

const AGAIN =
  'Lines that were read are stored. The file can be sent again: a line that is stored is unchanged then, except for a stock_delta without reference, which is added again.'

function explainEnd(isCancelled: boolean): string {
  return isCancelled ? 'You have cancelled the import.' : 'The connection to the store was lost during the import.'
}

interface UploadOptions {
  contentType: string
  signal: AbortSignal
  /** Called with the part of the file that was sent, 0 to 1. */
  onProgress: (part: number) => void
}

/** Sends a file and returns the text of the answer. `fetch` does not tell how much it has sent. Throws as `send` in api.ts does. */
async function upload(path: string, file: Blob, { contentType, signal, onProgress }: UploadOptions): Promise<string> {
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
