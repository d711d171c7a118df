import { OPERATOR_ROLES, type OperatorRole, ROLE_SCOPES, SCOPES } from '#scopes'
import { pathOf, type Schemas, send } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { create, replaceChildren } from './dom.ts'
import { choice, field } from './form.ts'
import type { ScreenContext } from './screen.ts'

type Context = Pick<ScreenContext, 'signal'> & { onDone: (text: string) => void }

/** Asks for the address and the role of a new operator. */
export function askToInvite({ signal, onDone }: Context): void {
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

export function askForRole({ id, email, role: present, is_invited }: Schemas['Operator'], { signal, onDone }: Context): void {
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
