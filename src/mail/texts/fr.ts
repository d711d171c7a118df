import type { MailTexts } from '../mail-kinds.ts'

export const FR: MailTexts = {
  greeting: 'Bonjour {{customer}},',
  greetingWithoutName: 'Bonjour,',
  colon: '\u00a0:',
  order: 'Commande {{number}}',
  item: 'Article',
  total: 'Total',
  refunded: 'Remboursé',
  each: '{{unit_price}} l’unité',
  moreItems: 'et {{more_items}} de plus',
  reason: 'Motif',
  copy: 'Copie',
  trackingNumber: 'numéro de suivi',
  newAddress: 'L’adresse de livraison est désormais une autre.',
  newBilling: 'L’adresse de facturation ou le numéro de TVA est désormais un autre.',
  newEmail: 'Les e-mails concernant cette commande sont désormais envoyés à cette adresse.',
  seeOrder: 'Voir votre commande',
  open: 'Continuer',
  role: 'Rôle',
  inviter: 'Invitation de',
  console: 'Console',
  orderFooter: 'Vous recevez cet e-mail parce qu’une commande passée avec cette adresse a changé. Il a été envoyé automatiquement.',
  accountFooter: 'Cet e-mail a été envoyé automatiquement. Nous ne demandons jamais votre mot de passe par e-mail.',
  orders: {
    created: {
      subject: 'Nous avons bien reçu votre commande {{number}}',
      heading: 'Merci pour votre commande',
      body: 'Nous avons bien reçu votre commande {{number}} et vous la confirmerons bientôt.',
    },
    confirmed: {
      subject: 'Votre commande {{number}} est confirmée',
      heading: 'Votre commande est confirmée',
      body: 'Nous avons confirmé votre commande {{number}} et la préparons.',
    },
    shipped: {
      subject: 'Votre commande {{number}} est en route',
      heading: 'Votre commande est en route',
      body: 'Nous avons expédié votre commande {{number}}.',
    },
    delivered: {
      subject: 'Votre commande {{number}} a été livrée',
      heading: 'Votre commande a été livrée',
      body: 'Votre commande {{number}} a été livrée. Nous espérons qu’elle vous plaira.',
    },
    cancelled: {
      subject: 'Votre commande {{number}} est annulée',
      heading: 'Votre commande est annulée',
      body: 'Votre commande {{number}} est annulée et ne sera pas expédiée.',
    },
    returned: {
      subject: 'Nous avons reçu le retour de votre commande {{number}}',
      heading: 'Nous avons reçu votre retour',
      body: 'Nous avons enregistré le retour de votre commande {{number}}.',
    },
    amended: {
      subject: 'Votre commande {{number}} a été modifiée',
      heading: 'Votre commande a été modifiée',
      body: 'Nous avons modifié votre commande {{number}}\u00a0:',
    },
    readdressed: {
      subject: 'Les e-mails concernant votre commande {{number}} sont envoyés à une autre adresse',
      heading: 'Une autre adresse pour les e-mails',
      body: 'Les e-mails concernant votre commande {{number}} sont désormais envoyés à une autre adresse e-mail.',
      advice: 'Si vous n’avez pas demandé ce changement, contactez-nous.',
    },
    part_shipped: {
      subject: 'Une partie de votre commande {{number}} est en route',
      heading: '{{subject}}',
      body: 'Nous avons expédié ces articles de votre commande {{number}}\u00a0:',
    },
    part_cancelled: {
      subject: 'Une partie de votre commande {{number}} est annulée',
      heading: '{{subject}}',
      body: 'Ces articles de votre commande {{number}} sont annulés et ne seront pas expédiés\u00a0:',
      now: 'Votre commande est maintenant\u00a0:',
    },
    part_returned: {
      subject: 'Nous avons reçu des articles de votre commande {{number}}',
      heading: '{{subject}}',
      body: 'Nous avons enregistré le retour de ces articles de votre commande {{number}}\u00a0:',
    },
  },
  accounts: {
    verify_email: {
      subject: 'Veuillez confirmer votre adresse e-mail',
      notice:
        'Quelqu’un, vous-même nous l’espérons, s’est inscrit avec cette adresse. Le compte sera créé lorsque vous l’aurez confirmé avec ce qui suit et avec le mot de passe choisi, dans les 24\u00a0heures\u00a0:',
      advice: 'Si ce n’était pas vous, ne faites rien\u00a0: sans ce mot de passe, personne ne peut créer le compte.',
    },
    reset_password: {
      subject: 'Choisissez un nouveau mot de passe',
      notice:
        'Quelqu’un, vous-même nous l’espérons, a demandé un nouveau mot de passe pour votre compte. Choisissez-le avec ce qui suit, dans les 30\u00a0minutes\u00a0:',
      advice: 'Si ce n’était pas vous, ne faites rien\u00a0: votre mot de passe reste inchangé.',
    },
    already_registered: {
      subject: 'Vous avez déjà un compte',
      notice: 'Quelqu’un, vous-même nous l’espérons, a tenté de s’inscrire avec cette adresse, qui a déjà un compte.',
      advice:
        'Si c’était vous, connectez-vous, ou demandez un nouveau mot de passe si vous avez oublié le vôtre. Si ce n’était pas vous, vous n’avez rien à faire.',
    },
    password_changed: {
      subject: 'Votre mot de passe a été modifié',
      notice: 'Le mot de passe de votre compte vient d’être modifié et les autres appareils ont été déconnectés.',
      advice:
        'Si ce n’était pas vous, demandez immédiatement un nouveau mot de passe et assurez-vous que personne d’autre ne lit vos e-mails.',
    },
    sign_in_linked: {
      subject: 'Vous pouvez désormais vous connecter par un fournisseur',
      notice: 'La connexion par un fournisseur vient d’être ajoutée à votre compte. Ce fournisseur ouvre désormais aussi votre compte.',
      advice:
        'Si ce n’était pas vous, retirez le fournisseur de votre compte, choisissez un nouveau mot de passe et assurez-vous que personne d’autre ne lit vos e-mails.',
    },
    sign_in_unlinked: {
      subject: 'Vous ne pouvez plus vous connecter par un fournisseur',
      notice: 'La connexion par un fournisseur vient d’être supprimée de votre compte, et les autres appareils ont été déconnectés.',
      advice: 'Si ce n’était pas vous, changez votre mot de passe immédiatement, et contactez-nous si vous ne pouvez pas vous connecter.',
    },
    second_factor_added: {
      subject: 'Un moyen de connexion a été ajouté à votre compte',
      notice: 'Une clé d’accès ou une application d’authentification vient d’être ajoutée à votre compte.',
      advice:
        'Si ce n’était pas vous, connectez-vous, supprimez-la et changez votre mot de passe immédiatement. Si vous ne pouvez pas vous connecter, contactez-nous.',
    },
    second_factor_removed: {
      subject: 'Un moyen de connexion a été supprimé de votre compte',
      notice:
        'Une clé d’accès ou une application d’authentification vient d’être supprimée de votre compte, et les autres appareils ont été déconnectés.',
      advice: 'Si ce n’était pas vous, changez votre mot de passe immédiatement, et contactez-nous si vous ne pouvez pas vous connecter.',
    },
    second_factor_failed: {
      subject: 'Codes erronés lors d’une connexion à votre compte',
      notice:
        'Quelqu’un s’est connecté à votre compte avec le bon mot de passe ou par votre fournisseur, puis a saisi plusieurs fois un code erroné de l’application d’authentification. L’accès lui a été refusé.',
      advice:
        'Si c’était vous, patientez un peu et saisissez un nouveau code, ou utilisez un code de récupération. Si ce n’était pas vous, changez ce mot de passe immédiatement\u00a0: quelqu’un d’autre le connaît.',
    },
    recovery_code_used: {
      subject: 'Un code de récupération a été utilisé',
      notice: 'L’un des codes de récupération de votre compte vient d’être utilisé.',
      advice: 'Si ce n’était pas vous, changez votre mot de passe immédiatement et créez de nouveaux codes de récupération.',
    },
    operator_invited: {
      subject: 'Votre invitation comme opérateur{{#shop}} de {{shop}}{{/shop}}',
      notice: 'Un compte a été créé pour vous dans la console{{#shop}} de {{shop}}{{/shop}}, la page des personnes qui gèrent la boutique.',
      task: 'Choisissez un mot de passe dans les 3\u00a0jours\u00a0:',
      advice:
        'Plus tard, la page de connexion de la console vous enverra un autre lien. Si vous n’attendiez pas cet e-mail, ne faites rien\u00a0: sans mot de passe, personne ne peut utiliser le compte.',
    },
    confirm_email: {
      subject: 'Confirmez votre adresse e-mail',
      notice:
        'Quelqu’un, vous-même nous l’espérons, souhaite utiliser cette adresse pour son compte. Connectez-vous à ce compte et confirmez l’adresse avec ce qui suit, dans les 24\u00a0heures\u00a0:',
      advice:
        'Si ce n’était pas vous, ne faites rien\u00a0: sans cette confirmation, personne ne peut utiliser votre adresse pour son compte.',
    },
    address_in_use: {
      subject: 'Cette adresse appartient déjà à un compte',
      notice:
        'Quelqu’un, vous-même nous l’espérons, a voulu utiliser cette adresse pour un compte. C’est impossible\u00a0: un autre compte l’utilise, ou l’utilisait il y a quelques jours encore.',
      advice:
        'Si c’était vous, connectez-vous avec cette adresse ou demandez un nouveau mot de passe. Si cet autre compte a désormais une autre adresse, celle-ci sera libre dans une semaine. Si ce n’était pas vous, vous n’avez rien à faire.',
    },
    email_change_requested: {
      subject: 'Une autre adresse e-mail a été demandée',
      notice:
        'Quelqu’un, vous-même nous l’espérons, a demandé une autre adresse e-mail pour votre compte. Elle sera utilisée dès qu’elle y aura été confirmée.',
      remedy:
        'Si ce n’était pas vous, empêchez-le avec ce qui suit. Tous les appareils seront alors déconnectés et vous définirez un nouveau mot de passe\u00a0:',
      advice: 'Si c’était vous, ne faites rien ici.',
    },
    email_changed: {
      subject: 'L’adresse e-mail de votre compte a été modifiée',
      notice: 'Votre compte a désormais une autre adresse e-mail, qui reçoit ses messages, et les autres appareils ont été déconnectés.',
      remedy:
        'Si ce n’était pas vous, récupérez votre compte avec ce qui suit, dans les sept jours. Tous les appareils seront alors déconnectés et vous définirez un nouveau mot de passe\u00a0:',
      advice: 'Si c’était vous, ne faites rien ici.',
    },
    email_change_reverted: {
      subject: 'La modification de votre adresse e-mail a été annulée',
      notice:
        'Le compte qui avait cette adresse a de nouveau l’ancienne\u00a0: son titulaire n’était pas d’accord avec la modification. Tous les appareils ont été déconnectés.',
      advice: 'Si vous ne vous y attendiez pas, contactez-nous.',
    },
    staff_orders: {
      subject: 'Nouvelle commande {{first}}{{#others}} et {{others}} de plus{{/others}}',
      body: 'Ces commandes sont nouvelles\u00a0:',
    },
    staff_sold_out: {
      subject: 'Épuisé\u00a0: {{first}}{{#others}} et {{others}} de plus{{/others}}',
      body: 'Ces produits sont épuisés\u00a0:',
    },
    staff_failed_mails: {
      subject: 'Non reçu\u00a0: {{first}}{{#others}} et {{others}} de plus{{/others}}',
      body: 'Ces e-mails ne sont pas parvenus aux clients\u00a0:',
      advice: 'Corrigez l’adresse dans la commande, puis renvoyez l’e-mail depuis la console.',
    },
  },
}
