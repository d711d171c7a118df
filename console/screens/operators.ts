import { OPERATOR_ROLES, type OperatorRole, ROLE_SCOPES, SCOPES } from '../../src/http/scopes.ts'
import { api, type Schemas } from '../kit/api.ts'
import { type Dialog, openFormDialog } from '../kit/dialog.ts'
import { choice, entered, field } from '../kit/form.ts'
import { badge, type Content, html, note, nothing, time } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import { resourceList } from '../kit/resource-list.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { requestNewPassword } from './sign-in.ts'

type Operator = Schemas['Operator']

const SECONDS = 10

/** The operators of this store, oldest accounts first, and what each may do. */
export function operators(context: ScreenContext): () => Content {
  const { signal, userId, names, tell, act } = context
  const done = (text: string) => {
    tell(text)
    names.forget()
    list.refresh()
  }

  function askToInvite(): void {
    const onSubmit = async (data: FormData) => {
      const { email = '', role } = entered(data)
      const { data: invited, response } = await api.POST('/admin/operators', { body: { email, role: role as OperatorRole } })
      const address = invited?.email ?? email
      done(response.status === 201 ? t`${address} is invited by a mail.` : t`The account ${address} existed, and is an operator now.`)
    }
    const hint = t`A mail with a link leads to the console, where the operator chooses a password. The link is valid for three days.`
    openFormDialog({ title: t`Invite an operator`, submit: t`Invite`, signal, onSubmit }, (dialog) => {
      const roles = roleChoice('support', dialog)
      return () => html`
        ${field(t`E-mail`, html`<input type="email" name="email" required maxlength="254" autocomplete="off">`, hint)}${roles()}`
    })
  }

  function askForRole({ id, email, role: present, is_invited }: Operator): void {
    const onSubmit = async (data: FormData) => {
      const role = String(data.get('role')) as OperatorRole
      await api.PATCH('/admin/operators/{id}', { params: { path: { id } }, body: { role } })
      done(t`${email} has the role ${word(role)}.`)
    }
    openFormDialog({ title: t`Change the role of ${email}`, submit: t`Change the role`, signal, onSubmit }, (dialog) => {
      const roles = roleChoice(present, dialog)
      const effect = is_invited ? t`The invitation is mailed again, with the new role.` : t`All sessions of the operator end.`
      return () => html`<p>${effect}</p>${roles()}`
    })
  }

  function askToReset({ id, email }: Operator): void {
    const onSubmit = async () => {
      await api.DELETE('/admin/operators/{id}/factors', { params: { path: { id } } })
      done(t`${email} signs in with the password alone now.`)
    }
    openFormDialog(
      { title: t`Reset the second factors of ${email}?`, submit: t`Reset`, danger: true, signal, onSubmit },
      () => () =>
        html`
        <p>Passkeys, authenticator app and recovery codes are removed, and all sessions end. The owner gets a mail.</p>
        <p>Make sure that the owner asks for it, such as by a call to a number that you know.</p>`,
    )
  }

  function askToRemove({ id, email }: Operator): void {
    const onSubmit = async () => {
      await api.DELETE('/admin/operators/{id}', { params: { path: { id } } })
      done(t`${email} is no operator any more.`)
    }
    const text = t`All sessions end, and the API keys that this operator has made are revoked. The account stays, as a customer's.`
    openFormDialog({ title: t`Remove ${email}?`, submit: t`Remove`, danger: true, signal, onSubmit }, () => () => html`<p>${text}</p>`)
  }

  const buttons = (operator: Operator) => {
    const { id, email, is_invited, has_second_factor } = operator
    const button = (text: string, work: () => unknown, kind = '') =>
      html`<button type="button" class=${kind} aria-label=${`${text}: ${email}`} @click=${act(work)}>${text}</button>`
    if (id === userId) return t`This is you.`
    return html`<div class="actions">
      ${button(t`Change role`, () => askForRole(operator))}
      ${is_invited ? button(t`Mail a link again`, async () => tell(await requestNewPassword(email))) : nothing}
      ${has_second_factor ? button(t`Reset second factors`, () => askToReset(operator)) : nothing}
      ${button(t`Remove`, () => askToRemove(operator), 'danger')}</div>`
  }

  const list = resourceList<Operator>(
    {
      title: t`Operators`,
      screen: 'settings',
      fixed: { section: 'operators' },
      seconds: SECONDS,
      ask: (query, init) => api.GET('/admin/operators', { ...init, params: { query } }),
      keyOf: ({ id }) => id,
      columns: [
        { title: t`Operator`, cell: ({ email, name }) => (name === null ? email : `${email} (${name})`) },
        { title: t`Role`, cell: ({ role }) => word(role) },
        { title: t`State`, cell: ({ is_invited }) => (is_invited ? badge(t`invited`, 'waiting') : badge(t`active`, 'good')) },
        {
          title: t`Second factor`,
          cell: ({ has_second_factor }) => (has_second_factor ? badge(t`set up`, 'good') : badge(t`none`, 'waiting')),
        },
        { title: t`Since`, cell: ({ created_at }) => time(created_at) },
        { title: t`Change`, cell: buttons },
      ],
      words: {
        count: (count) => plural(count, t`${count} operator`, t`${count} operators`),
        none: t`No operators.`,
        noMatch: t`No operators.`,
      },
      intro: () => note(t`Nobody changes or removes themselves, and one admin always stays.`),
      actions: () => html`<button type="button" class="primary" @click=${askToInvite}>Invite an operator</button>`,
    },
    context,
  )
  return list
}

/** A list of roles. Below it is what the chosen role may do. */
function roleChoice(present: OperatorRole, { update }: Dialog): () => Content {
  let chosen = present
  const onChange = (value: string) => {
    chosen = value as OperatorRole
    update()
  }
  return () => html`${field(
    t`Role`,
    choice(
      { name: 'role', onChange },
      OPERATOR_ROLES.map((role) => [role, word(role)] as const),
      present,
    ),
  )}
    <section aria-live="polite" aria-label="What the role may do"><ul>${ROLE_SCOPES[chosen].map((scope) => html`<li>${word(SCOPES[scope])}</li>`)}</ul></section>`
}
