import type { MailTexts } from '../mail-kinds.ts'

export const DE: MailTexts = {
  greeting: 'Guten Tag {{customer}},',
  greetingWithoutName: 'Guten Tag,',
  colon: ':',
  order: 'Bestellung {{number}}',
  item: 'Artikel',
  total: 'Summe',
  refunded: 'Erstattet',
  each: 'je {{unit_price}}',
  moreItems: 'und {{more_items}} weitere',
  reason: 'Grund',
  copy: 'Kopie',
  trackingNumber: 'Sendungsnummer',
  newAddress: 'Die Lieferadresse ist jetzt eine andere.',
  newBilling: 'Rechnungsadresse oder USt-IdNr. sind jetzt andere.',
  newEmail: 'E-Mails zu dieser Bestellung gehen ab jetzt an diese Adresse.',
  seeOrder: 'Bestellung ansehen',
  open: 'Weiter',
  role: 'Rolle',
  inviter: 'Eingeladen von',
  console: 'Konsole',
  orderFooter:
    'Sie erhalten diese E-Mail, weil sich eine Bestellung mit dieser Adresse geändert hat. Diese Nachricht wurde automatisch versendet.',
  accountFooter: 'Diese E-Mail wurde automatisch versendet. Wir fragen nie per E-Mail nach Ihrem Passwort.',
  orders: {
    created: {
      subject: 'Wir haben Ihre Bestellung {{number}} erhalten',
      heading: 'Vielen Dank für Ihre Bestellung',
      body: 'wir haben Ihre Bestellung {{number}} erhalten und bestätigen sie in Kürze.',
    },
    confirmed: {
      subject: 'Ihre Bestellung {{number}} ist bestätigt',
      heading: 'Ihre Bestellung ist bestätigt',
      body: 'wir haben Ihre Bestellung {{number}} bestätigt und bereiten den Versand vor.',
    },
    shipped: {
      subject: 'Ihre Bestellung {{number}} ist unterwegs',
      heading: 'Ihre Bestellung ist unterwegs',
      body: 'wir haben Ihre Bestellung {{number}} versendet.',
    },
    delivered: {
      subject: 'Ihre Bestellung {{number}} wurde zugestellt',
      heading: 'Ihre Bestellung wurde zugestellt',
      body: 'Ihre Bestellung {{number}} wurde zugestellt. Viel Freude damit!',
    },
    cancelled: {
      subject: 'Ihre Bestellung {{number}} ist storniert',
      heading: 'Ihre Bestellung ist storniert',
      body: 'Ihre Bestellung {{number}} ist storniert und wird nicht versendet.',
    },
    returned: {
      subject: 'Ihre Rücksendung zur Bestellung {{number}} ist eingetroffen',
      heading: 'Ihre Rücksendung ist eingetroffen',
      body: 'wir haben die Rücksendung Ihrer Bestellung {{number}} verbucht.',
    },
    amended: {
      subject: 'Ihre Bestellung {{number}} wurde geändert',
      heading: 'Ihre Bestellung wurde geändert',
      body: 'wir haben Ihre Bestellung {{number}} geändert:',
    },
    readdressed: {
      subject: 'E-Mails zu Ihrer Bestellung {{number}} gehen an eine andere Adresse',
      heading: 'Eine andere Adresse für E-Mails',
      body: 'E-Mails zu Ihrer Bestellung {{number}} gehen ab jetzt an eine andere E-Mail-Adresse.',
      advice: 'Wenn Sie das nicht gewünscht haben, melden Sie sich bei uns.',
    },
    part_shipped: {
      subject: 'Ein Teil Ihrer Bestellung {{number}} ist unterwegs',
      heading: '{{subject}}',
      body: 'wir haben diese Artikel Ihrer Bestellung {{number}} versendet:',
    },
    part_cancelled: {
      subject: 'Ein Teil Ihrer Bestellung {{number}} ist storniert',
      heading: '{{subject}}',
      body: 'diese Artikel Ihrer Bestellung {{number}} sind storniert und werden nicht versendet:',
      now: 'Ihre Bestellung ist nun:',
    },
    part_returned: {
      subject: 'Artikel Ihrer Bestellung {{number}} sind bei uns eingetroffen',
      heading: '{{subject}}',
      body: 'wir haben die Rücksendung dieser Artikel Ihrer Bestellung {{number}} verbucht:',
    },
  },
  accounts: {
    verify_email: {
      subject: 'Bitte bestätigen Sie Ihre E-Mail-Adresse',
      notice:
        'jemand, hoffentlich Sie selbst, hat sich mit dieser Adresse registriert. Das Kundenkonto wird angelegt, wenn Sie es hiermit und mit dem gewählten Passwort innerhalb von 24 Stunden bestätigen:',
      advice: 'Wenn Sie es nicht waren, tun Sie nichts: Ohne dieses Passwort kann niemand das Kundenkonto anlegen.',
    },
    reset_password: {
      subject: 'Legen Sie ein neues Passwort fest',
      notice:
        'jemand, hoffentlich Sie selbst, hat ein neues Passwort für Ihr Kundenkonto angefordert. Legen Sie es hiermit innerhalb von 30 Minuten fest:',
      advice: 'Wenn Sie es nicht waren, tun Sie nichts: Ihr Passwort bleibt, wie es ist.',
    },
    already_registered: {
      subject: 'Sie haben bereits ein Kundenkonto',
      notice: 'jemand, hoffentlich Sie selbst, wollte sich mit dieser Adresse registrieren, zu der es bereits ein Kundenkonto gibt.',
      advice:
        'Wenn Sie es waren, melden Sie sich an oder fordern Sie ein neues Passwort an, falls Sie Ihres vergessen haben. Wenn Sie es nicht waren, brauchen Sie nichts zu tun.',
    },
    password_changed: {
      subject: 'Ihr Passwort wurde geändert',
      notice: 'das Passwort Ihres Kundenkontos wurde soeben geändert, und andere Geräte wurden abgemeldet.',
      advice:
        'Wenn Sie es nicht waren, fordern Sie sofort ein neues Passwort an, und stellen Sie sicher, dass niemand sonst Ihre E-Mails liest.',
    },
    sign_in_linked: {
      subject: 'Sie können sich jetzt über einen Anbieter anmelden',
      notice:
        'zu Ihrem Kundenkonto wurde soeben die Anmeldung über einen Anbieter hinzugefügt. Dieser Anbieter öffnet von nun an auch Ihr Kundenkonto.',
      advice:
        'Wenn Sie es nicht waren, entfernen Sie den Anbieter in Ihrem Kundenkonto, legen Sie ein neues Passwort fest, und stellen Sie sicher, dass niemand sonst Ihre E-Mails liest.',
    },
    sign_in_unlinked: {
      subject: 'Sie können sich nicht mehr über einen Anbieter anmelden',
      notice: 'von Ihrem Kundenkonto wurde soeben die Anmeldung über einen Anbieter entfernt, und andere Geräte wurden abgemeldet.',
      advice: 'Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort, und wenden Sie sich an uns, wenn Sie sich nicht anmelden können.',
    },
    second_factor_added: {
      subject: 'Ihrem Konto wurde ein Anmeldeverfahren hinzugefügt',
      notice: 'Ihrem Kundenkonto wurde soeben ein Passkey oder eine Authenticator-App hinzugefügt.',
      advice:
        'Wenn Sie es nicht waren, melden Sie sich an, entfernen Sie das Verfahren, und ändern Sie sofort Ihr Passwort. Wenn Sie sich nicht anmelden können, wenden Sie sich an uns.',
    },
    second_factor_removed: {
      subject: 'Ein Anmeldeverfahren Ihres Kontos wurde entfernt',
      notice: 'von Ihrem Kundenkonto wurde soeben ein Passkey oder eine Authenticator-App entfernt, und andere Geräte wurden abgemeldet.',
      advice: 'Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort, und wenden Sie sich an uns, wenn Sie sich nicht anmelden können.',
    },
    second_factor_failed: {
      subject: 'Falsche Codes bei einer Anmeldung an Ihrem Konto',
      notice:
        'jemand hat sich mit dem richtigen Passwort oder über Ihren Anbieter an Ihrem Kundenkonto angemeldet und dann mehrmals einen falschen Code der Authenticator-App eingegeben. Der Zugang wurde verweigert.',
      advice:
        'Wenn Sie es waren, warten Sie etwas und geben Sie einen neuen Code ein, oder verwenden Sie einen Wiederherstellungscode. Wenn Sie es nicht waren, ändern Sie sofort dieses Passwort: Jemand anderes kennt es.',
    },
    recovery_code_used: {
      subject: 'Ein Wiederherstellungscode wurde verwendet',
      notice: 'einer der Wiederherstellungscodes Ihres Kundenkontos wurde soeben verwendet.',
      advice: 'Wenn Sie es nicht waren, ändern Sie sofort Ihr Passwort, und erzeugen Sie neue Wiederherstellungscodes.',
    },
    operator_invited: {
      subject: 'Sie sind als Mitarbeiter eingeladen{{#shop}} von {{shop}}{{/shop}}',
      notice: 'für Sie wurde ein Konto in der Konsole{{#shop}} von {{shop}}{{/shop}} angelegt, der Seite für alle, die im Shop arbeiten.',
      task: 'Wählen Sie innerhalb von 3 Tagen ein Passwort dafür:',
      advice:
        'Später schickt Ihnen die Anmeldeseite der Konsole einen neuen Link. Wenn Sie diese E-Mail nicht erwartet haben, tun Sie nichts: Ohne Passwort kann niemand das Konto benutzen.',
    },
    confirm_email: {
      subject: 'Bestätigen Sie Ihre E-Mail-Adresse',
      notice:
        'jemand, hoffentlich Sie selbst, möchte diese Adresse für ein Kundenkonto verwenden. Melden Sie sich bei diesem Kundenkonto an, und bestätigen Sie die Adresse hiermit innerhalb von 24 Stunden:',
      advice: 'Wenn Sie es nicht waren, tun Sie nichts: Ohne diese Bestätigung kann niemand Ihre Adresse für ein Kundenkonto verwenden.',
    },
    address_in_use: {
      subject: 'Diese Adresse gehört bereits zu einem Kundenkonto',
      notice:
        'jemand, hoffentlich Sie selbst, wollte diese Adresse für ein Kundenkonto verwenden. Das ist nicht möglich: Ein anderes Kundenkonto hat sie oder hatte sie bis vor wenigen Tagen.',
      advice:
        'Wenn Sie es waren, melden Sie sich mit dieser Adresse an oder fordern Sie ein neues Passwort an. Hat jenes Kundenkonto inzwischen eine andere Adresse, so wird diese in einer Woche frei. Wenn Sie es nicht waren, brauchen Sie nichts zu tun.',
    },
    email_change_requested: {
      subject: 'Eine andere E-Mail-Adresse wurde angefordert',
      notice:
        'jemand, hoffentlich Sie selbst, hat eine andere E-Mail-Adresse für Ihr Kundenkonto angefordert. Das Kundenkonto erhält sie, sobald sie dort bestätigt ist.',
      remedy:
        'Wenn Sie es nicht waren, verhindern Sie es hiermit. Alle Geräte werden dann abgemeldet, und Sie legen ein neues Passwort fest:',
      advice: 'Wenn Sie es waren, tun Sie hier nichts.',
    },
    email_changed: {
      subject: 'Die E-Mail-Adresse Ihres Kundenkontos wurde geändert',
      notice: 'Ihr Kundenkonto hat jetzt eine andere E-Mail-Adresse, an die seine Mails gehen, und andere Geräte wurden abgemeldet.',
      remedy:
        'Wenn Sie es nicht waren, holen Sie Ihr Kundenkonto hiermit innerhalb von sieben Tagen zurück. Alle Geräte werden dann abgemeldet, und Sie legen ein neues Passwort fest:',
      advice: 'Wenn Sie es waren, tun Sie hier nichts.',
    },
    email_change_reverted: {
      subject: 'Die Änderung Ihrer E-Mail-Adresse wurde rückgängig gemacht',
      notice:
        'das Kundenkonto mit dieser Adresse hat wieder seine frühere: Wer die frühere Adresse hat, war mit der Änderung nicht einverstanden. Alle Geräte wurden abgemeldet.',
      advice: 'Wenn Sie das nicht erwartet haben, wenden Sie sich an uns.',
    },
    staff_orders: {
      subject: 'Neue Bestellung {{first}}{{#others}} und {{others}} weitere{{/others}}',
      body: 'diese Bestellungen sind neu:',
    },
    staff_sold_out: {
      subject: 'Ausverkauft: {{first}}{{#others}} und {{others}} weitere{{/others}}',
      body: 'diese Produkte sind ausverkauft:',
    },
    staff_failed_mails: {
      subject: 'Nicht angekommen: {{first}}{{#others}} und {{others}} weitere{{/others}}',
      body: 'diese E-Mails sind nicht angekommen:',
      advice: 'Berichtigen Sie die Adresse in der Bestellung und senden Sie die E-Mail dann in der Konsole noch einmal.',
    },
  },
}
