import type { Schemas } from '../kit/api.ts'
import { type Content, html, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { cell, createRows } from '../kit/rows.ts'
import { type AttributeRow, type Attributes, attributeRows, KINDS, type Kind, readAttributes } from './attribute-rows.ts'

/** The shop's own attributes of a product, which can be filters of lists. */
export function productAttributes(stored: () => Attributes | undefined, onChange: () => void) {
  const rows = createRows<AttributeRow>('attributes', () => attributeRows(stored()), onChange)
  const edit = (index: number, part: Partial<AttributeRow>) =>
    rows.edit(index, { ...part, ...('name' in part ? {} : { stored: undefined }) })
  const value = ({ name, kind, text }: AttributeRow, index: number) => {
    const label = t`Value of ${titleOf(name, index)}`
    const onText = ({ currentTarget }: Event) => edit(index, { text: (currentTarget as HTMLTextAreaElement).value })
    if (kind === 'boolean')
      return html`<select aria-label=${label} @change=${onText}><option value="true" ?selected=${text === 'true'}>yes</option>
        <option value="false" ?selected=${text !== 'true'}>no</option></select>`
    if (kind === 'number') return cell({ label, value: text, numeric: true }, (next) => edit(index, { text: next }))
    return html`<textarea aria-label=${label} rows=${text.split('\n').length} maxlength="4096" .defaultValue=${text} .value=${text} @input=${onText}></textarea>`
  }
  const choose = (index: number, { currentTarget }: Event) => {
    const kind = (currentTarget as HTMLSelectElement).value as Kind
    edit(index, { kind, ...(kind === 'boolean' ? { text: 'true' } : {}) })
  }
  const row = (shown: AttributeRow, index: number) => html`<div class="row">
    ${cell({ label: t`Name of attribute ${index + 1}`, value: shown.name, maxLength: 50 }, (name) => rows.edit(index, { name }))}
    <select aria-label=${t`Kind of ${titleOf(shown.name, index)}`} @change=${(event: Event) => choose(index, event)}>
      ${Object.entries(KINDS).map(([kind, text]) => html`<option value=${kind} ?selected=${kind === shown.kind}>${text}</option>`)}</select>
    ${value(shown, index)}
    <button type="button" aria-label=${t`Remove ${titleOf(shown.name, index)}`} @click=${() => rows.remove(index)}>×</button>
  </div>`
  const view = (): Content =>
    rows.mark(html`${rows.rows().map(row)}
      <div><button type="button" @click=${() => rows.add({ name: '', kind: 'text', text: '' })}>Add an attribute</button></div>
      ${rows.rows().some(({ kind }) => kind === 'list') ? html`<small class="muted">A list has one value a line.</small>` : nothing}`)
  return {
    view,
    read: (): Schemas['ProductChange'] => (rows.isChanged() ? { attributes: readAttributes(rows.rows()) } : {}),
    discard: rows.discard,
  }
}

function titleOf(name: string, index: number): string {
  return name || t`attribute ${index + 1}`
}
