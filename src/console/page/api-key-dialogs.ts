import { KEY_SCOPES, SCOPES } from '#scopes'
import { call, pathOf, type Schemas } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create } from './dom.ts'
import { choice, field } from './form.ts'
import type { ScreenContext } from './screen.ts'

type NewApiKey = Schemas['NewApiKey']
/** Shows the text of a key, this once, and returns what gets the focus. */
type OnShown = (key: NewApiKey) => HTMLElement

const DAY_MS = 86_400_000
/** The store accepts two years. */
const MAX_DAYS = 730
const USUAL_DAYS = 365
const OVERLAPS = [
  ['3600', 'an hour'],
  ['86400', 'a day'],
  ['604800', 'a week'],
  ['0', 'not at all: it ends now'],
] as const

/** Asks for the name, the scopes and the end of a new key. A key can do no more than its maker. */
export function askForNewKey({ signal, may }: Pick<ScreenContext, 'signal' | 'may'>, onShown: OnShown): void {
  const name = create('input', { name: 'name', required: true, maxLength: 100, autocomplete: 'off' })
  const end = create('input', { type: 'date', name: 'expires', value: dayIn(USUAL_DAYS), min: dayIn(0), max: dayIn(MAX_DAYS) })
  const boxes = KEY_SCOPES.filter(may).map((scope) =>
    create(
      'label',
      { class: 'choice' },
      create('input', { type: 'checkbox', name: 'scopes', value: scope }),
      ' ',
      create('code', {}, scope),
      ` ${SCOPES[scope]}`,
    ),
  )
  const onSubmit = async (data: FormData) => {
    const scopes = data.getAll('scopes')
    if (scopes.length === 0) throw new Error('Choose at least one thing that the key may do.')
    const expires_at = end.value === '' ? null : new Date(`${end.value}T23:59:59`).toISOString()
    const key = await call<NewApiKey>('POST', '/admin/api-keys', { body: { name: name.value.trim(), scopes, expires_at } })
    focusAfterwards(name, onShown(key))
  }
  openFormDialog(
    { title: 'Make an API key', submit: 'Make the key', signal, onSubmit },
    field('Name', name, 'The machine or the service. Not a person: the name stays when the person leaves.'),
    create('fieldset', { class: 'scopes' }, create('legend', {}, 'What it may do'), ...boxes),
    field('Expires', end, 'At the end of this day, within two years. Empty: never.'),
  )
}

/** Asks how long the present secret stays valid beside the new one. */
export function askForRotation(
  { id, name }: Schemas['ApiKey'],
  { signal, onShown }: Pick<ScreenContext, 'signal'> & { onShown: OnShown },
): void {
  const overlap = choice({ name: 'overlap' }, OVERLAPS, '86400')
  const onSubmit = async () => {
    const body = { overlap_seconds: Number(overlap.value) }
    const key = await call<NewApiKey>('POST', pathOf`/admin/api-keys/${id}/rotate`, { body })
    focusAfterwards(overlap, onShown(key))
  }
  openFormDialog(
    { title: `Rotate ${name}`, submit: 'Rotate', signal, onSubmit },
    create('p', {}, 'The key gets another secret. Name, scopes and expiry stay. A secret that an earlier rotation left ends now.'),
    field('The present secret stays valid for', overlap, 'So that machines can change one after the other.'),
  )
}

/** A closed dialog returns the focus to the button that opened it; what is shown once is more important. */
function focusAfterwards(control: HTMLElement, next: HTMLElement): void {
  control.closest('dialog')?.addEventListener('close', () => next.focus())
}

/** A day in this browser's time zone, in the format of `<input type=date>`. */
function dayIn(days: number): string {
  const day = new Date(Date.now() + days * DAY_MS)
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, '0')).join('-')
}
