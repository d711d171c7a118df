import type { MailTexts } from '../mail-kinds.ts'

export const EN: MailTexts = {
  greeting: 'Hello {{customer}},',
  greetingWithoutName: 'Hello,',
  colon: ':',
  order: 'Order {{number}}',
  item: 'Item',
  total: 'Total',
  refunded: 'Refunded',
  each: '{{unit_price}} each',
  moreItems: 'and {{more_items}} more',
  reason: 'Reason',
  copy: 'Copy',
  trackingNumber: 'tracking number',
  newAddress: 'The delivery address has changed.',
  newBilling: 'The billing address or VAT number has changed.',
  newEmail: 'Mails about this order go to this address from now on.',
  seeOrder: 'See your order',
  open: 'Continue',
  role: 'Role',
  inviter: 'Invited by',
  console: 'Console',
  orderFooter: 'You get this mail because an order with this address has changed. It was sent automatically.',
  accountFooter: 'This mail was sent automatically. We never ask for your password by mail.',
  orders: {
    created: {
      subject: 'We have received your order {{number}}',
      heading: 'Thank you for your order',
      body: 'We have received your order {{number}} and will confirm it soon.',
    },
    confirmed: {
      subject: 'Your order {{number}} is confirmed',
      heading: 'Your order is confirmed',
      body: 'We have confirmed your order {{number}} and are getting it ready.',
    },
    shipped: {
      subject: 'Your order {{number}} is on its way',
      heading: 'Your order is on its way',
      body: 'We have shipped your order {{number}}.',
    },
    delivered: {
      subject: 'Your order {{number}} has been delivered',
      heading: 'Your order has been delivered',
      body: 'Your order {{number}} has been delivered. Enjoy it!',
    },
    cancelled: {
      subject: 'Your order {{number}} is cancelled',
      heading: 'Your order is cancelled',
      body: 'Your order {{number}} is cancelled and will not be shipped.',
    },
    returned: {
      subject: 'Your order {{number}} has been returned',
      heading: 'Your return has arrived',
      body: 'We have booked your order {{number}} as returned.',
    },
    amended: {
      subject: 'Your order {{number}} was changed',
      heading: 'Your order was changed',
      body: 'We have changed your order {{number}}:',
    },
    readdressed: {
      subject: 'Mails about your order {{number}} go to another address',
      heading: 'Another address for mails',
      body: 'Mails about your order {{number}} go to another e-mail address from now on.',
      advice: 'If you did not ask for this, contact us.',
    },
    part_shipped: {
      subject: 'Part of your order {{number}} is on its way',
      heading: '{{subject}}',
      body: 'We have shipped these items of your order {{number}}:',
    },
    part_cancelled: {
      subject: 'Part of your order {{number}} is cancelled',
      heading: '{{subject}}',
      body: 'These items of your order {{number}} are cancelled and will not be shipped:',
      now: 'Your order now:',
    },
    part_returned: {
      subject: 'We have received items of your order {{number}}',
      heading: '{{subject}}',
      body: 'We have booked these items of your order {{number}} as returned:',
    },
  },
  accounts: {
    verify_email: {
      subject: 'Please confirm your e-mail address',
      notice:
        'Somebody, hopefully you, has registered with this address. The account is made when you confirm it with this and with the password that you chose, within 24 hours:',
      advice: 'If it was not you, do nothing: without that password nobody can make the account.',
    },
    reset_password: {
      subject: 'Set a new password',
      notice: 'Somebody, hopefully you, has asked for a new password for your account. Set it with this, within 30 minutes:',
      advice: 'If it was not you, do nothing: your password stays as it is.',
    },
    already_registered: {
      subject: 'You have an account already',
      notice: 'Somebody, hopefully you, has tried to register with this address, which has an account already.',
      advice: 'If it was you, log in, or ask for a new password if you have forgotten yours. If it was not you, there is nothing to do.',
    },
    password_changed: {
      subject: 'Your password was changed',
      notice: 'The password of your account was changed just now, and other devices were logged out.',
      advice: 'If it was not you, ask for a new password at once, and make sure that nobody else reads your mails.',
    },
    sign_in_linked: {
      subject: 'You can now sign in with a provider',
      notice: 'A sign-in with a provider was added to your account just now. From now on this provider opens your account, too.',
      advice:
        'If it was not you, remove the provider in your account, set a new password, and make sure that nobody else reads your mails.',
    },
    sign_in_unlinked: {
      subject: 'You can no longer sign in with a provider',
      notice: 'A sign-in with a provider was removed from your account just now, and other devices were logged out.',
      advice: 'If it was not you, change your password at once, and ask us for help if you cannot sign in.',
    },
    second_factor_added: {
      subject: 'A way to sign in was added to your account',
      notice: 'A passkey or an authenticator app was added to your account just now.',
      advice: 'If it was not you, sign in and remove it, and change your password at once. If you cannot sign in, ask us for help.',
    },
    second_factor_removed: {
      subject: 'A way to sign in was removed from your account',
      notice: 'A passkey or an authenticator app was removed from your account just now, and other devices were logged out.',
      advice: 'If it was not you, change your password at once, and ask us for help if you cannot sign in.',
    },
    second_factor_failed: {
      subject: 'Wrong codes at a sign-in to your account',
      notice:
        'Somebody signed in to your account with the right password or provider and then entered a wrong code of the authenticator app, several times. They were not let in.',
      advice:
        'If it was you, wait a while and enter a new code, or use a recovery code. If it was not you, change that password at once: somebody else knows it.',
    },
    recovery_code_used: {
      subject: 'A recovery code was used',
      notice: 'One of the recovery codes of your account was used just now.',
      advice: 'If it was not you, change your password at once and make new recovery codes.',
    },
    operator_invited: {
      subject: 'You are invited as an operator{{#shop}} of {{shop}}{{/shop}}',
      notice: 'An account was made for you in the console{{#shop}} of {{shop}}{{/shop}}, the page for the people who run the shop.',
      task: 'Choose a password for it within 3 days:',
      advice:
        'Later, the sign-in page of the console mails you another link. If you did not expect this mail, do nothing: without a password nobody can use the account.',
    },
    confirm_email: {
      subject: 'Confirm your e-mail address',
      notice:
        'Somebody, hopefully you, wants this address for their account. Log in to that account, and confirm the address with this within 24 hours:',
      advice: 'If it was not you, do nothing. Your address is used for an account only after you confirm it.',
    },
    address_in_use: {
      subject: 'This address belongs to an account already',
      notice:
        'Somebody, hopefully you, wanted this address for an account. That is not possible: another account has it, or had it until a few days ago.',
      advice:
        'If it was you, log in with this address, or ask for a new password. If you have changed the address of your account, you can use this one again in a week. If it was not you, there is nothing to do.',
    },
    email_change_requested: {
      subject: 'Another e-mail address was asked for',
      notice:
        'Somebody, hopefully you, has asked for another e-mail address for your account. The account gets it as soon as it is confirmed there.',
      remedy: 'If it was not you, prevent it with this. All devices are then logged out, and you set a new password:',
      advice: 'If it was you, do nothing here.',
    },
    email_changed: {
      subject: 'The e-mail address of your account was changed',
      notice: 'Your account has another e-mail address now, to which its mails go, and other devices were logged out.',
      remedy:
        'If it was not you, take your account back with this within seven days. All devices are then logged out, and you set a new password:',
      advice: 'If it was you, do nothing here.',
    },
    email_change_reverted: {
      subject: 'The change of your e-mail address was reverted',
      notice:
        'The account that had this address has its former one again: the holder of the former address did not agree with the change. All devices were logged out.',
      advice: 'If you did not expect this, contact us.',
    },
    staff_orders: {
      subject: 'New order {{first}}{{#others}} and {{others}} more{{/others}}',
      body: 'These orders are new:',
    },
    staff_sold_out: {
      subject: 'Sold out: {{first}}{{#others}} and {{others}} more{{/others}}',
      body: 'These products are sold out:',
    },
    staff_failed_mails: {
      subject: 'Not received: {{first}}{{#others}} and {{others}} more{{/others}}',
      body: 'These mails did not reach the customers:',
      advice: 'Correct the address in the order, then send the mail again in the console.',
    },
  },
}
