import { OPERATOR_ROLES, type OperatorRole, ROLE_SCOPES, SCOPES } from '#scopes'
import { pathOf, type Schemas, send, withQuery } from './api.ts'
import { requestNewPassword } from './choose-password.ts'
import { openFormDialog } from './dialog.ts'
import { actions, badge, button, create, keyedTable, note, replaceChildren, timeElement } from './dom.ts'
import { choice, field } from './form.ts'
import { pagedList } from './paged-list.ts'
import type { ScreenContext } from './screen.ts'

type Operator = Schemas['Operator']

const POLL_SECONDS = 10

/** `#account?operators=1`: who works with this store, the oldest accounts first, and what each may do. */
export function showOperators(root: HTMLElement, context: ScreenContext): void {
  const { signal, userId, names, report, tell } = context
  const columns = ['Operator', 'Role', 'State', 'Second factor', 'Since', 'Change']
  const rows = keyedTable<Operator>('Operators', columns, {
    keyOf: ({ id }) => id,
    cellsOf: (operator) => [
      create('span', {}, operator.email, operator.name === null ? '' : ` (${operator.name})`),
      operator.role,
      operator.is_invited ? badge('invited', 'waiting') : badge('active', 'good'),
      operator.has_second_factor ? badge('set up', 'good') : badge('none', 'waiting'),
      timeElement(operator.created_at),
      operator.id === userId ? 'This is you.' : actions(...buttons(operator)),
    ],
  })
  const list = pagedList(
    {
      ...{ path: '/admin/operators', seconds: POLL_SECONDS, rows },
      addressOf: (page) => withQuery('#account', { operators: 1, ...page }),
      words: { more: 'More operators', none: 'No operators.' },
    },
    context,
  )
  const onDone = (text: string) => {
    tell(text)
    names.forget()
    list.refresh()
  }

  function buttons(operator: Operator): HTMLButtonElement[] {
    const { email, is_invited, has_second_factor } = operator
    const named = (text: string, onClick: () => unknown) => Object.assign(button(text, onClick, report), { ariaLabel: `${text}: ${email}` })
    return [
      named('Change role', () => askForRole(operator, { signal, onDone })),
      ...(is_invited ? [named('Mail a link again', async () => tell(await requestNewPassword(email)))] : []),
      ...(has_second_factor ? [named('Reset second factors', () => askToReset(operator))] : []),
      named('Remove', () => askToRemove(operator)),
    ]
  }

  function askToReset({ id, email }: Operator): void {
    const onSubmit = async () => {
      await send('DELETE', pathOf`/admin/operators/${id}/factors`)
      onDone(`${email} signs in with the password alone now.`)
    }
    openFormDialog(
      { title: `Reset the second factors of ${email}?`, submit: 'Reset', signal, onSubmit },
      create('p', {}, 'Passkeys, authenticator app and recovery codes are removed, and all sessions end. The owner gets a mail.'),
      create('p', {}, 'Make sure that the owner asks for it, such as by a call to a number that you know.'),
    )
  }

  function askToRemove({ id, email }: Operator): void {
    const onSubmit = async () => {
      await send('DELETE', pathOf`/admin/operators/${id}`)
      onDone(`${email} is no operator any more.`)
    }
    openFormDialog(
      { title: `Remove ${email}?`, submit: 'Remove', signal, onSubmit },
      create('p', {}, "All sessions end, and the API keys that this operator has made are revoked. The account stays, as a customer's."),
    )
  }

  root.append(
    create('h2', {}, 'Account: operators'),
    note('Nobody changes or removes themselves, and one admin always stays.'),
    actions(button('Invite an operator', () => askToInvite({ signal, onDone }))),
    ...list.elements,
  )
}

type Context = Pick<ScreenContext, 'signal'> & { onDone: (text: string) => void }

/** Asks for the address and the role of a new operator. */
function askToInvite({ signal, onDone }: Context): void {
  const email = create('input', { type: 'email', name: 'email', required: true, maxLength: 254, autocomplete: 'off' })
  const role = roleChoice('support')
  const onSubmit = async () => {
    const answer = await send('POST', '/admin/operators', { body: { email: email.value.trim(), role: role.select.value } })
    const { email: address } = (await answer.json()) as Schemas['Operator']
    onDone(answer.status === 201 ? `${address} is invited by a mail.` : `The account ${address} existed, and is an operator now.`)
  }
  openFormDialog(
    { title: 'Invite an operator', submit: 'Invite', signal, onSubmit },
    field(
      'E-mail',
      email,
      'A mail with a link leads to the console, where the operator chooses a password. The link is valid for three days.',
    ),
    ...role.elements,
  )
}

function askForRole({ id, email, role: present, is_invited }: Schemas['Operator'], { signal, onDone }: Context): void {
  const role = roleChoice(present)
  const onSubmit = async () => {
    await send('PATCH', pathOf`/admin/operators/${id}`, { body: { role: role.select.value } })
    onDone(`${email} has the role ${role.select.value}.`)
  }
  const effect = is_invited ? 'The invitation is mailed again, with the new role.' : 'All sessions of the operator end.'
  openFormDialog(
    { title: `Change the role of ${email}`, submit: 'Change the role', signal, onSubmit },
    create('p', {}, effect),
    ...role.elements,
  )
}

/** A list of the roles, and below it what the chosen one may do. */
function roleChoice(chosen: OperatorRole): { select: HTMLSelectElement; elements: HTMLElement[] } {
  const select = choice({ name: 'role' }, OPERATOR_ROLES, chosen)
  const list = create('ul')
  const show = () => replaceChildren(list, ...ROLE_SCOPES[select.value as OperatorRole].map((scope) => create('li', {}, SCOPES[scope])))
  select.addEventListener('change', show)
  show()
  const may = create('section', { attributes: { 'aria-live': 'polite', 'aria-label': 'What the role may do' } }, list)
  return { select, elements: [field('Role', select), may] }
}
