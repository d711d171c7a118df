import { html, nothing, render, type TemplateResult } from 'lit-html'
import { isProblem, type NewOrder, type Problem, ProblemError, type Schemas } from '../store.ts'
import { forgetOrderKey, type Line, orderKey, readBasket, refreshLines, removeOrdered, setQuantity, totals } from './basket.ts'
import { picture, sum, times } from './basket-page.ts'
import { countries } from './countries.ts'
import { attempt, Refusal } from './dialog.ts'
import { sendOrder } from './order-attempt.ts'
import { explainSignIn } from './problems.ts'
import { href, money, report, shop, showSession, t } from './session.ts'
import { SIGN_INS, signIn } from './sign-in.ts'
import { signOut } from './sign-out.ts'
import { fillInTyped, forgetTyped, keepTyped, readTyped } from './typed.ts'

type Account = Schemas['Account']

/** The order form: first the customer's e-mail address, then the delivery address, and the costs. */
export async function showOrderForm(root: HTMLElement): Promise<void> {
  let account: Account | null = null
  let way = readTyped().way ?? 'guest'
  // The customer has seen that an order has the same lines, and wants another one.
  let isMeant = false
  let refused: readonly string[] = []
  let lines: readonly Line[] = []
  orderKey()

  const draw = () => {
    lines = readBasket()
    if (lines.length === 0) return void render(html`<p>${t('The basket is empty.')}</p>`, root)
    render(
      html`<form id="order-form" @submit=${submit} @input=${keep} @change=${keep}>
<section><h2>${t('Who orders')}</h2>${account !== null && account.role !== 'guest' ? signedIn(account) : who()}</section>
<section><h2>${t('Where to deliver')}</h2>${address()}</section>
<section><h2>${t('What it costs')}</h2><ul class="rows">${lines.map((line) => row(line, refused.includes(line.id)))}</ul>${sum(lines)}
<p class="error" role="alert"></p>
<p class="actions"><button class="primary" id="place-order">${t('Order')}</button>
<a class="button" href=${href('/basket')}>${t('Change the basket')}</a></p></section>
</form>`,
      root,
    )
    fillInTyped(root.querySelector('form') as HTMLFormElement)
  }
  const keep = (event: Event) => keepTyped(event.currentTarget as HTMLFormElement)
  const readAccount = async () => {
    account = (await shop.isLoggedIn()) ? await shop.account().catch(() => account) : null
    draw()
  }
  const choose = (event: Event) => {
    way = (event.currentTarget as HTMLInputElement).value
    draw()
  }
  const leave = async () => {
    await signOut()
    location.reload()
  }
  const signedIn = ({ email }: Account) =>
    html`<p>${email} <button type="button" class="plain" @click=${leave}>${t('Not you? Sign out')}</button></p>`
  const who =
    () => html`<label>${t('E-mail')} <input type="email" name="email" required maxlength="254" autocomplete="email" value=${account?.email ?? nothing}></label>
<fieldset class="row"><legend class="hidden">${t('Account')}</legend>
${radio('guest', t('Order without an account'))} ${radio('login', t('I have an account'))} ${radio('register', t('Create an account'))}
</fieldset>
${
  way === 'guest'
    ? nothing
    : html`<label>${t('Password')} <input type="password" name="password" required minlength="8" maxlength="128"
autocomplete=${way === 'login' ? 'current-password' : 'new-password'}></label>`
}
${way === 'login' ? html`<p><button type="button" class="plain" @click=${(event: Event) => attempt(event, () => signIn())}>${t('Other ways to sign in')}</button></p>` : nothing}`
  const radio = (value: string, text: string) =>
    html`<label class="check"><input type="radio" name="way" value=${value} .checked=${way === value} @change=${choose}> ${text}</label>`

  const submit = async (event: SubmitEvent) => {
    // Another tab may change the basket while the customer signs in.
    const shown = lines
    const {
      email = '',
      password = '',
      way: chosen,
      ...fields
    } = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as Record<string, string>
    const isPlaced = await attempt(
      event,
      async () => {
        if (totals(shown).length > 1) throw new Refusal(t('Order the products of each currency on their own.'))
        if (chosen !== undefined && !(await identify(chosen, email, password))) return
        await place(shown, filled(fields) as NewOrder['shipping_address'])
      },
      explainOrder,
    )
    if (!isPlaced) await showSession()
  }
  /** Opens the session for the order. Returns whether there is one. */
  const identify = async (chosen: string, email: string, password: string) => {
    if (chosen === 'guest' && (await shop.isLoggedIn())) {
      const current = await shop.account()
      if (current.role !== 'guest' || current.email === email.trim().toLowerCase()) return true
    }
    const user = await SIGN_INS[chosen]?.({ email, password })
    if (user === null) report(t('A mail with a link to confirm the address is on its way.'))
    if (user === null || user === undefined) return false
    await readAccount()
    return true
  }
  const place = async (shown: readonly Line[], shipping_address: NewOrder['shipping_address']) => {
    const [total] = totals(shown)
    if (total === undefined) return
    const order: NewOrder = {
      items: shown.map(({ id, quantity }) => ({ product_id: id, quantity })),
      // The total that the customer saw. The store refuses the order when a price has changed.
      expected_total: total,
      currency: total.currency,
      shipping_address,
      ...(isMeant && { again: true }),
    }
    try {
      const { id } = await sendOrder(order)
      forgetTyped()
      removeEventListener('basket', draw)
      removeOrdered(shown)
      location.href = href('/order', { id, placed: 'yes' })
    } catch (error) {
      if (isProblem(error, 'invalid_body')) markFields(root, error.problem)
      refused = error instanceof ProblemError ? refusedLines(error.problem, shown) : []
      if (isProblem(error, 'price_changed')) showNewPrices(error.problem.items)
      isMeant ||= isProblem(error, 'probably_placed_already')
      if (isProblem(error, 'idempotency_key_reused')) forgetOrderKey()
      if (error instanceof ProblemError && error.status === 401) await readAccount()
      draw()
      throw error
    }
  }

  for (const change of ['basket', 'storage']) addEventListener(change, draw)
  addEventListener('session', readAccount)
  draw()
  await readAccount()
}

function address(): TemplateResult {
  const region = new Intl.Locale(navigator.language).region ?? ''
  const option = ([code, name]: readonly [string, string]) => html`<option value=${code} ?selected=${code === region}>${name}</option>`
  return html`<label>${t('Name')} <input name="name" required maxlength="200" autocomplete="name"></label>
<label>${t('Street')} <input name="line1" required maxlength="200" autocomplete="address-line1"></label>
<label>${t('Apartment, floor')} <input name="line2" maxlength="200" autocomplete="address-line2"></label>
<div class="row"><label>${t('Postal code')} <input name="postal_code" maxlength="20" autocomplete="postal-code"></label>
<label class="grow">${t('City')} <input name="city" maxlength="100" autocomplete="address-level2"></label></div>
<label>${t('Region, where the post needs it')} <input name="region" maxlength="100" autocomplete="address-level1"></label>
<label>${t('Country')} <select name="country" required autocomplete="country"><option value=""></option>${countries().map(option)}</select></label>`
}

const filled = (fields: Record<string, string>) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''))

function row(line: Line, isRefused: boolean): TemplateResult {
  const { name, price, quantity } = line
  return html`<li>${picture(line)}<span class="grow">${quantity} × ${name}</span>
<span class="sum">${money(times(price, quantity))}</span>
${isRefused ? html`<button type="button" @click=${() => setQuantity(line, 0)}>${t('Remove {}', name)}</button>` : nothing}</li>`
}

/** The inputs to which a refusal points, such as `#/shipping_address/city`. */
function fieldsOf({ errors = [] }: Problem, root: ParentNode): HTMLInputElement[] {
  const names = errors.map(({ pointer = '' }) => pointer.split('/').at(-1) ?? '')
  return names.flatMap((name) => root.querySelector<HTMLInputElement>(`form [name="${CSS.escape(name)}"]`) ?? [])
}

function labelOf({ labels, name }: HTMLInputElement): string {
  const texts = [...(labels?.[0]?.childNodes ?? [])].filter(({ nodeType }) => nodeType === Node.TEXT_NODE)
  return (
    texts
      .map(({ textContent }) => textContent)
      .join('')
      .trim() || name
  )
}

function markFields(root: HTMLElement, problem: Problem): void {
  for (const marked of root.querySelectorAll('[aria-invalid]')) marked.removeAttribute('aria-invalid')
  const fields = fieldsOf(problem, root)
  for (const field of fields) field.ariaInvalid = 'true'
  fields[0]?.focus()
}

/** The ids of products whose lines a refusal points to, such as `#/items/0/product_id`. */
function refusedLines({ errors = [] }: Problem, lines: readonly Line[]): string[] {
  return errors.flatMap(({ pointer = '' }) => lines[Number(/^#\/items\/(\d+)/.exec(pointer)?.[1])]?.id ?? [])
}

/** Shows the current prices in the basket. */
function showNewPrices(items: Schemas['OrderItem'][]): void {
  refreshLines(new Map(items.map(({ product_id, unit_price }) => [product_id, { price: unit_price }])))
}

/** A text about what the customer can do when the order was not placed. */
function explainOrder(error: unknown): string {
  if (error instanceof Refusal) return error.message
  const nameOf = (id: string) => readBasket().find((line) => line.id === id)?.name ?? id
  if (isProblem(error, 'insufficient_stock')) {
    // The store reports at most 20 available units.
    const left = (available: number) => (available < 20 ? t('{} left', available) : t('at least 20 left'))
    return error.problem.shortages.map(({ product_id, available }) => `${nameOf(product_id)}: ${left(available)}.`).join(' ')
  }
  if (isProblem(error, 'unknown_product')) return t('A product of the basket is no longer sold. Remove it.')
  if (isProblem(error, 'mixed_currencies')) return t('Order the products of each currency on their own.')
  if (isProblem(error, 'currency_not_available')) return t('A product of the basket is not sold in this currency. Remove it.')
  if (isProblem(error, 'price_changed')) return t('A price has changed. This is the total now: press Order again if you agree.')
  if (isProblem(error, 'probably_placed_already')) return t('You have just placed this order. Press Order again to place it once more.')
  if (isProblem(error, 'idempotency_key_reused'))
    return t('An order from this basket was placed before you changed it: see your orders. Press Order again to place this one as well.')
  if (isProblem(error, 'invalid_body')) {
    const labels = fieldsOf(error.problem, document).map(labelOf)
    return labels.length === 0 ? error.problem.detail : t('Please check: {}.', labels.join(', '))
  }
  if (isProblem(error, 'invalid_credentials') || isProblem(error, 'email_taken')) return explainSignIn(error)
  if (error instanceof ProblemError && error.status === 401) return t('Your session has ended. Press Order again.')
  if (error instanceof ProblemError && error.status < 500) return error.problem.detail
  // The order may have been placed. With the same key the next attempt returns that order and places no other.
  return t('The store cannot be reached. Press Order again: it is placed once.')
}
