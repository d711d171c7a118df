import mustache from 'mustache'
import type { Language } from '../language.ts'
import { ACCOUNT_MAILS, type Block, type MailTexts, ORDER_MAILS, type Structure } from './mail-kinds.ts'
import { DE } from './texts/de.ts'
import { EN } from './texts/en.ts'
import { ES } from './texts/es.ts'
import { FR } from './texts/fr.ts'

export const MAIL_TEXTS: Readonly<Record<Language, MailTexts>> = { en: EN, de: DE, fr: FR, es: ES }

/** A part of a mail, as text and as HTML. */
interface Part {
  txt: string
  html: string
}

const P = '<p style="margin:0 0 16px">'
const H1 = '<h1 style="margin:0 0 16px;font-size:24px;line-height:1.25">'
const LINE = 'border-bottom:1px solid #e5e7eb'
const HEAD = 'border-bottom:2px solid #e5e7eb'
const MUTED = 'class="muted" style="margin:0 0 8px;color:#6b7280"'

/** Mail programs without dark mode ignore this. */
const DARK = `
@media (prefers-color-scheme: dark) {
  body { background: #111827 !important; color: #f3f4f6 !important }
  .card { background: #1f2937 !important }
  .muted { color: #9ca3af !important }
  .token { background: #374151 !important }
  th, td { border-color: #374151 !important }
  a { color: #93c5fd }
}
`
/** The shop's logo, or its name. */
const SHOP = `{{#logo_url}}
<p style="margin:0 0 24px"><img src="{{logo_url}}" alt="{{shop}}" height="40" style="display:block;border:0"></p>
{{/logo_url}}
{{^logo_url}}{{#shop}}
<p style="margin:0 0 24px;font-size:18px;font-weight:bold">{{shop}}</p>
{{/shop}}{{/logo_url}}
`

/** Builds the Mustache templates of a language by name, such as `created.txt` and `account/footer.html`. Pure. */
export function buildTemplates(texts: MailTexts): ReadonlyMap<string, string> {
  const { greeting, greetingWithoutName } = texts
  const blocks = blocksOf(texts)
  const orderGreeting = paragraph(`{{#customer}}${greeting}{{/customer}}{{^customer}}${greetingWithoutName}{{/customer}}`)
  const accountGreeting = paragraph(greetingWithoutName)
  return new Map([
    ['header.html', page(`<p ${MUTED}>${toHtml(texts.order)}</p>`)],
    ...filesOf('lines', changedLines(texts)),
    ...filesOf('order', orderTable(texts)),
    ...filesOf('link', orderLink(texts)),
    ...filesOf('footer', footer(texts.orderFooter)),
    ...mailsOf('', ORDER_MAILS, texts.orders, blocks, ({ heading = '' }) => [
      { txt: '', html: `${H1}${toHtml(heading)}</h1>\n` },
      orderGreeting,
    ]),
    ['account/header.html', page(`${H1}{{subject}}</h1>`)],
    ...filesOf('account/action', accountAction(texts)),
    ...filesOf('account/footer', footer(texts.accountFooter)),
    ...mailsOf('account/', ACCOUNT_MAILS, texts.accounts, blocks, () => [accountGreeting]),
  ])
}

type Texts = Readonly<Record<string, string>>
type File = [name: string, template: string]

function mailsOf(
  folder: string,
  mails: Readonly<Record<string, Structure>>,
  textsOfKinds: Readonly<Record<string, Texts>>,
  blocks: Readonly<Record<string, Part>>,
  begin: (texts: Texts) => Part[],
): File[] {
  return Object.entries(mails).flatMap(([kind, structure]) => {
    const texts = textsOfKinds[kind] ?? {}
    const parts = [...begin(texts), ...structure.map((name) => blocks[name] ?? paragraph(texts[name] ?? ''))]
    const [txt, html] = (['txt', 'html'] as const).map((format) => parts.map((part) => part[format]).join(''))
    return filesOf(`${folder}${kind}`, { txt: `${texts.subject}\n${txt}{{> footer}}\n`, html: `{{> header}}\n${html}{{> footer}}\n` })
  })
}

function filesOf(name: string, { txt, html }: Part): File[] {
  return [
    [`${name}.html`, html],
    [`${name}.txt`, txt],
  ]
}

function blocksOf(texts: MailTexts): Record<Block, Part> {
  const { role, inviter, console, reason, colon, newAddress, newBilling, newEmail, moreItems } = texts
  const amendments = [
    onlyWith('new_address', paragraph(newAddress)),
    onlyWith('new_billing', paragraph(newBilling)),
    onlyWith('new_email', paragraph(newEmail)),
  ]
  return {
    amendments: { txt: amendments.map(({ txt }) => txt).join(''), html: amendments.map(({ html }) => html).join('') },
    order: partial('order'),
    // The mail has already stated the reason above, below the items it concerns.
    orderWithoutReason: onlyWith('without_reason', partial('order')),
    lines: partial('lines'),
    tracking: onlyWith('tracking_number', tracking(texts)),
    reason: onlyWith('reason', paragraph(`${reason}${colon} {{reason}}`)),
    link: partial('link'),
    action: partial('action'),
    invitation: paragraph(
      `${role}${colon} {{role}}\n{{#inviter}}${inviter}${colon} {{inviter}}\n{{/inviter}}${console}${colon} {{console}}`,
    ),
    notices: noticeList(moreItems, paragraph(`${console}${colon} {{console}}`)),
  }
}

function paragraph(text: string): Part {
  return { txt: `\n${text}\n`, html: `${P}${toHtml(text).replaceAll('\n', '<br>\n')}</p>\n` }
}

function partial(name: string): Part {
  return { txt: `\n{{> ${name}}}\n`, html: `{{> ${name}}}\n` }
}

function onlyWith(value: string, { txt, html }: Part): Part {
  const wrap = (text: string) => `{{#${value}}}\n${text}{{/${value}}}\n`
  return { txt: wrap(txt), html: wrap(html) }
}

/** Texts contain Mustache tags, which have none of these characters, and no markup. */
function toHtml(text: string): string {
  return text.replace(/[&<>]/g, mustache.escape)
}

function page(top: string): string {
  return `<!doctype html>
<html lang="{{language}}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{subject}}</title>
<style>${DARK}</style>
</head>
<body style="margin:0;padding:24px 12px;background:#f3f4f6;color:#1f2937;font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">
<div role="main" class="card" style="max-width:600px;margin:0 auto;padding:32px;background:#ffffff;border-top:4px solid {{color}};border-radius:8px">
${SHOP}${top}
`
}

function footer(text: string): Part {
  const small = (line: string) => `<p class="muted" style="margin:24px 0 0;color:#6b7280;font-size:14px">${line}</p>\n`
  return {
    txt: `\n{{#contact}}\n{{contact}}\n\n{{/contact}}\n${text}\n`,
    html: `{{#contact}}
${small('{{contact}}')}{{/contact}}
${small(toHtml(text))}</div>\n</body>\n</html>\n`,
  }
}

function changedLines({ colon }: MailTexts): Part {
  const line = '{{quantity}} × {{name}}'
  const given = attributes(colon)
  const more = '… + {{more_lines}}'
  const list = (before: string, below: string, after: string) =>
    `{{#lines}}\n${before}${line}${below}${after}\n{{/lines}}\n{{#more_lines}}\n${before}${more}${after}\n{{/more_lines}}\n`
  return {
    txt: list('', given.txt, ''),
    html: `<ul style="margin:0 0 16px;padding:0 0 0 20px">\n${list('<li>', given.html, '</li>')}</ul>\n`,
  }
}

function noticeList(moreItems: string, console: Part): Part {
  const [detail, more] = [
    '{{#detail}}, {{detail}}{{/detail}}',
    onlyWith('more_items', { txt: `${moreItems}\n`, html: `<li>${toHtml(moreItems)}</li>\n` }),
  ]
  return {
    txt: `\n{{#notices}}\n{{title}}${detail}\n{{url}}\n{{/notices}}\n${more.txt}${console.txt}`,
    html: `<ul style="margin:0 0 16px;padding:0 0 0 20px">
{{#notices}}
<li><a href="{{url}}">{{title}}${detail}</a></li>
{{/notices}}
${more.html}</ul>
${console.html}`,
  }
}

function tracking({ trackingNumber }: MailTexts): Part {
  const number = '{{tracking_number}}'
  const link = `{{#tracking_url}}<a href="{{tracking_url}}">${number}</a>{{/tracking_url}}{{^tracking_url}}${number}{{/tracking_url}}`
  return {
    txt: `\n{{carrier}}, ${trackingNumber} ${number}\n{{#tracking_url}}\n{{tracking_url}}\n{{/tracking_url}}\n`,
    html: `${P}{{carrier}}, ${toHtml(trackingNumber)} ${link}</p>\n`,
  }
}

function orderLink({ seeOrder }: MailTexts): Part {
  return {
    txt: `${seeOrder}\n{{order_url}}\n`,
    html: buttonLink('{{order_url}}', seeOrder),
  }
}

/** The link is a button, because the URL is too long to read. */
function buttonLink(url: string, text: string): string {
  return `<p style="margin:24px 0 16px"><a href="${url}" style="display:inline-block;padding:12px 24px;border-radius:6px;background:{{color}};color:{{on_color}};font-weight:bold;text-decoration:none">${toHtml(text)}</a></p>
`
}

function accountAction({ open }: MailTexts): Part {
  return {
    txt: `{{#link}}\n${open}\n{{link}}\n{{/link}}\n{{^link}}\n{{token}}\n{{/link}}\n`,
    html: `{{#link}}
${buttonLink('{{link}}', open)}{{/link}}
{{^link}}<p class="token" style="margin:0 0 16px;padding:12px;background:#f3f4f6;font-family:monospace;word-break:break-all">{{token}}</p>{{/link}}
`,
  }
}

function orderTable({ item, total, refunded, each, moreItems, reason, colon }: MailTexts): Part {
  const reasonLine = `${reason}${colon} {{reason}}`
  const rows = [
    onlyWith('items', row('{{quantity}} × {{name}}', '{{total}}', colon, each, attributes(colon))),
    onlyWith('more_items', {
      txt: `${moreItems}\n`,
      html: `<tr>\n<td colspan="2" style="padding:8px 0;${LINE}">${toHtml(moreItems)}</td>\n</tr>\n`,
    }),
    onlyWith('adjustments', row('{{label}}', '{{amount}}', colon)),
  ]
  return {
    txt: `{{#reason}}\n${reasonLine}\n\n{{/reason}}\n${rows.map(({ txt }) => txt).join('')}\n${total}${colon} {{total}}\n{{#refunded}}\n${refunded}${colon} {{refunded}}\n{{/refunded}}\n`,
    html: `${onlyWith('reason', paragraph(reasonLine)).html}<table style="width:100%;margin:24px 0;border-collapse:collapse">
<thead>
<tr>
<th scope="col" style="padding:8px 0;${HEAD};text-align:left">${toHtml(item)}</th>
<th scope="col" style="padding:8px 0 8px 16px;${HEAD};text-align:right">${toHtml(total)}</th>
</tr>
</thead>
<tbody>
${rows.map(({ html }) => html).join('')}</tbody>
<tfoot>
<tr>
<th scope="row" style="padding:12px 0;text-align:left">${toHtml(total)}</th>
<td style="padding:12px 0 12px 16px;text-align:right;font-weight:bold;white-space:nowrap">{{total}}</td>
</tr>
${onlyWith('refunded', row(toHtml(refunded), '{{refunded}}', colon)).html}</tfoot>
</table>
`,
  }
}

/** The attributes of a line of the order, such as an engraving, below its name. */
function attributes(colon: string): Part {
  const attribute = `{{name}}${colon} {{value}}`
  return {
    txt: `{{#attributes}}\n  ${attribute}{{/attributes}}`,
    html: `{{#attributes}}<br><span class="muted" style="color:#6b7280">${attribute}</span>{{/attributes}}`,
  }
}

/** `each` is shown if there is a `unit_price`. */
function row(label: string, amount: string, colon: string, each = '', below: Part = { txt: '', html: '' }): Part {
  const note = (text: string) => (each === '' ? '' : `{{#unit_price}}${text}{{/unit_price}}`)
  return {
    txt: `${label}${note(` (${each})`)}${colon} ${amount}${below.txt}\n`,
    html: `<tr>
<td style="padding:8px 0;${LINE}">${label}${note(` <span class="muted" style="color:#6b7280">(${toHtml(each)})</span>`)}${below.html}</td>
<td style="padding:8px 0 8px 16px;${LINE};text-align:right;white-space:nowrap">${amount}</td>
</tr>
`,
  }
}
