import { pathOf, type Schemas, send, withQuery } from './api.ts'
import { requestNewPassword } from './choose-password.ts'
import { openFormDialog } from './dialog.ts'
import { badge, button, create, note, timeElement } from './dom.ts'
import { keyedTable } from './keyed-table.ts'
import { askForRole, askToInvite } from './operator-dialogs.ts'
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
      operator.id === userId ? 'This is you.' : create('div', { class: 'actions' }, ...buttons(operator)),
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
    const named = (text: string, onClick: () => unknown) => Object.assign(button(text, onClick), { ariaLabel: `${text}: ${email}` })
    return [
      named('Change role', () => askForRole(operator, { signal, onDone })),
      ...(is_invited ? [named('Mail a link again', () => mailAgain(email))] : []),
      ...(has_second_factor ? [named('Reset second factors', () => askToReset(operator))] : []),
      named('Remove', () => askToRemove(operator)),
    ]
  }

  async function mailAgain(email: string): Promise<void> {
    try {
      tell(await requestNewPassword(email))
    } catch (error) {
      report(error)
    }
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
    create(
      'div',
      { class: 'actions' },
      button('Invite an operator', () => askToInvite({ signal, onDone })),
    ),
    ...list.elements,
  )
}
