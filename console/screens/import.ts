import { addressOf } from '../kit/address.ts'
import { NoAnswer, ProblemError, SignedOut } from '../kit/api.ts'
import { download } from '../kit/download.ts'
import { createForm, field } from '../kit/form.ts'
import { type Column, type Content, card, html, note, nothing, table } from '../kit/html.ts'
import { plural, sizeText, t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { accessToken, addressOf as pathOf } from '../kit/session.ts'
import {
  type CatalogueFile,
  type ImportOutcome,
  type Preview,
  previewOf,
  readCatalogueFile,
  readOutcome,
  readText,
  refusedText,
} from './import-file.ts'

/** Largest number of shown lines. The file of refused lines has all. */
const SHOWN_LINES = 500
const AGAIN = t`Lines that were read are stored. You can send the file again: it does not change stored lines, except that it adds a stock_delta without reference again.`

/** `#products?import=1`: imports a catalogue file, which creates and changes products by SKU, line by line. */
export function importFile({ signal, tell, update, act, title, keep }: ScreenContext): () => Content {
  title(t`Import products`)
  let running: AbortController | null = null
  let progress = { part: 0, text: '' }
  let preview: Preview | null = null
  let results: Content = nothing
  keep(() => (running === null ? '' : t`The import is still running.`))

  const choose = async ({ currentTarget }: Event) => {
    const [file] = (currentTarget as HTMLInputElement).files ?? []
    preview = null
    results = nothing
    // Sending the file says what is wrong with it.
    if (file !== undefined) preview = await readCatalogueFile(file).then(previewOf, () => null)
    update()
  }
  const send = async (_: FormData, form: HTMLFormElement) => {
    // This is the control's own file, because `FormData` has a copy.
    const file = form.querySelector<HTMLInputElement>('[type=file]')?.files?.[0]
    if (file === undefined) throw new Error(t`Choose a file.`)
    results = nothing
    tell('')
    const catalogue = await readCatalogueFile(file)
    const cancelling = new AbortController()
    running = cancelling
    const onProgress = (part: number) => {
      const sent = t`${Math.floor(part * 100)} % of ${sizeText(file.size)} sent`
      progress = { part, text: part < 1 ? `${sent}.` : t`${sent}, waiting for the results …` }
      update()
    }
    onProgress(0)
    try {
      const answer = await upload(file, {
        contentType: catalogue.contentType,
        signal: AbortSignal.any([signal, cancelling.signal]),
        onProgress,
      })
      const outcome = readOutcome(answer)
      preview = null
      results = resultsOf(outcome, catalogue)
      if (outcome.fault !== null) throw new Error(outcome.fault)
    } catch (error) {
      const { aborted } = cancelling.signal
      const what = aborted ? t`You have cancelled the import.` : t`The connection to the store was lost during the import.`
      throw aborted || error instanceof NoAnswer ? new Error(`${what} ${AGAIN}`) : error
    } finally {
      running = null
      update()
    }
  }
  const resultsOf = (outcome: ImportOutcome, catalogue: CatalogueFile): Content => {
    const { created, updated, unchanged, failed } = outcome.counts
    tell(t`${catalogue.file.name}: ${created} created, ${updated} updated, ${unchanged} unchanged, ${failed} refused.`)
    if (failed === 0) return html`<p><a href="#products">See the products</a></p>`
    const refused = outcome.lines.flatMap((line) => ('error' in line ? [line] : []))
    const save = act(async () => {
      const { file, contentType } = catalogue
      download(`refused-${file.name}`, new Blob([refusedText(await readText(file), outcome, catalogue)], { type: contentType }))
    })
    const columns: Column<(typeof refused)[number]>[] = [
      { title: t`Line`, number: true, cell: ({ line }) => line },
      { title: t`Reason`, cell: ({ error }) => error },
    ]
    return card(
      t`Refused lines`,
      html`<button type="button" @click=${save}>Download the refused lines</button>
      ${table(t`Refused lines`, columns, refused.slice(0, SHOWN_LINES))}
      ${refused.length > SHOWN_LINES ? html`<p>And ${refused.length - SHOWN_LINES} more: the download has all.</p>` : nothing}`,
    )
  }
  const form = createForm({ update }, { submit: t`Import`, onSubmit: send })
  const sending = () =>
    running === null
      ? nothing
      : html`<progress max="1" .value=${progress.part} aria-label="Sent"></progress><p role="status">${progress.text}</p>
      <div><button type="button" @click=${() => running?.abort()}>Cancel</button></div>`
  const hint = t`NDJSON, or CSV with a header (sku, name, category, price, …; docs/shop/catalogue.md). Each line is a whole product.`
  return () => html`<a href=${addressOf('products')}>← All products</a><h2>Import products</h2>
    ${card(
      t`File`,
      form(html`
      ${field(t`File`, html`<input type="file" name="file" required accept=".ndjson,.jsonl,.csv,.tsv,.txt" @change=${choose}>`, hint)}
      ${preview === null ? nothing : previewTable(preview)}${sending()}`),
    )}
    ${results}`
}

function previewTable({ columns, rows, count }: Preview): Content {
  const shown = columns.map((title, index) => ({ title, cell: (row: readonly string[]) => row[index] ?? '' }))
  return html`${table(t`Preview`, shown, rows)}${note(
    rows.length < count
      ? t`The first ${rows.length} of about ${count} products. Nothing is sent yet.`
      : plural(count, t`${count} product. Nothing is sent yet.`, t`${count} products. Nothing is sent yet.`),
  )}`
}

interface UploadOptions {
  contentType: string
  signal: AbortSignal
  /** Called with the sent part of the file, from 0 to 1. */
  onProgress: (part: number) => void
}

/** Sends a file and returns the text of the answer. `fetch` does not report how much it has sent. */
async function upload(file: Blob, { contentType, signal, onProgress }: UploadOptions): Promise<string> {
  const token = await accessToken()
  if (token === null) throw new SignedOut(t`Sign in.`)
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    signal.addEventListener('abort', abort, { once: true })
    request.open('POST', pathOf('/admin/products/import'))
    request.setRequestHeader('authorization', `Bearer ${token}`)
    request.setRequestHeader('content-type', contentType)
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total))
    request.addEventListener('load', () => {
      if (request.status === 200) return resolve(request.responseText)
      if (request.status === 401) return reject(new SignedOut(t`Your session has ended. Sign in again.`))
      const isProblem = request.getResponseHeader('content-type')?.startsWith('application/problem+json')
      reject(
        isProblem
          ? new ProblemError(JSON.parse(request.responseText), new Response(null, { status: request.status }))
          : new NoAnswer(t`Something in front of the store answered ${request.status}.`),
      )
    })
    request.addEventListener('error', () => reject(new NoAnswer(t`The connection was lost.`)))
    request.addEventListener('abort', () => reject(new DOMException('The upload was cancelled.', 'AbortError')))
    request.addEventListener('loadend', () => signal.removeEventListener('abort', abort))
    request.send(file)
  })
}
