"""Short texts of rules in four languages, with limits, dates, amounts and duties.

A text has four to seven facts of one language. A claim repeats or changes one or two of them. The
texts are written for this recipe and describe no real company.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

LANGUAGES = ("en", "de", "fr", "es")
FEWEST_FACTS = 4
MOST_FACTS = 7

DAYS = {
    "en": "{} days",
    "de": "{} Tagen",
    "fr": "{} jours",
    "es": "{} días",
}
MONTHS_AS_TIME = {
    "en": "{} months",
    "de": "{} Monaten",
    "fr": "{} mois",
    "es": "{} meses",
}
MONEY = {
    "en": "{} euros",
    "de": "{} Euro",
    "fr": "{} euros",
    "es": "{} euros",
}
PERCENT = {
    "en": "{} percent",
    "de": "{} Prozent",
    "fr": "{} %",
    "es": "{} %",
}
AGE = {
    "en": "{} years",
    "de": "{} Jahren",
    "fr": "{} ans",
    "es": "{} años",
}
CLOCK = {
    "en": "{}:00",
    "de": "{} Uhr",
    "fr": "{} h",
    "es": "las {}:00",
}
UNITS = {
    "days": (DAYS, (3, 5, 7, 8, 10, 14, 15, 20, 21, 28, 30, 45, 60, 90)),
    "months": (MONTHS_AS_TIME, (2, 3, 4, 6, 9, 12, 18, 24, 36)),
    "money": (MONEY, (15, 25, 40, 50, 80, 120, 150, 200, 250, 300, 450, 500, 750, 1200, 2500, 5000)),
    "percent": (PERCENT, (2, 3, 5, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80, 90)),
    "age": (AGE, (14, 16, 18, 21, 25, 27, 30, 60, 65, 67, 70)),
    "clock": (CLOCK, (7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 22)),
}  # fmt: skip


@dataclass(frozen=True)
class Forms:
    """How one language says a fact.

    `says` and `asks` have {o} for the object and {v} for the value or the role. `denies` says the
    opposite of `says`, where a fact has no value. Each row of `limits` says a limit twice, right and
    turned round.
    """

    objects: tuple[str, ...]
    says: tuple[str, ...]
    asks: tuple[str, ...]
    denies: tuple[str, ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Facts of one kind: with a value of a unit, with a role, or with yes or no."""

    unit: str
    forms: dict[str, Forms] = field(default_factory=dict)


FAMILIES = (
    Family(
        "days",
        {
            "en": Forms(
                ("phone contracts", "annual passes", "garage spaces", "home insurance", "gym memberships", "magazine subscriptions", "storage rooms", "travel insurance"),
                ("For {o}, the notice period is {v}.", "Customers can cancel {o} with a notice of {v}.", "The notice period for {o} is {v}.", "Whoever wants to end {o} must give notice {v} in advance."),
                ("What is the notice period for {o}?", "How long is the notice period for {o}?", "How far in advance must {o} be cancelled?"),
            ),
            "de": Forms(
                ("Mobilfunkverträge", "Jahreskarten", "Stellplätze", "Hausratversicherungen", "Mitgliedschaften", "Zeitschriftenabos", "Lagerräume", "Reiseversicherungen"),
                ("Für {o} gilt eine Kündigungsfrist von {v}.", "Die Kündigungsfrist für {o} liegt bei {v}.", "{o} können mit einer Frist von {v} gekündigt werden.", "Wer {o} beenden will, muss eine Frist von {v} einhalten."),
                ("Welche Kündigungsfrist gilt für {o}?", "Wie lang ist die Kündigungsfrist für {o}?", "Mit welcher Frist kann man {o} kündigen?"),
            ),
            "fr": Forms(
                ("les forfaits mobiles", "les cartes annuelles", "les places de parking", "les assurances habitation", "les abonnements sportifs", "les abonnements de presse", "les box de stockage", "les assurances voyage"),
                ("Pour {o}, le délai de préavis est de {v}.", "Le préavis est de {v} pour {o}.", "On peut résilier {o} avec un préavis de {v}.", "Qui veut résilier {o} doit prévenir {v} à l'avance."),
                ("Quel est le délai de préavis pour {o} ?", "Combien de temps à l'avance faut-il résilier {o} ?"),
            ),
            "es": Forms(
                ("los contratos de móvil", "los abonos anuales", "las plazas de garaje", "los seguros de hogar", "las cuotas del gimnasio", "las suscripciones a revistas", "los trasteros", "los seguros de viaje"),
                ("Para {o}, el plazo de preaviso es de {v}.", "El preaviso es de {v} para {o}.", "Se pueden cancelar {o} con un preaviso de {v}.", "Quien quiera cancelar {o} debe avisar con {v} de antelación."),
                ("¿Cuál es el plazo de preaviso para {o}?", "¿Con cuánta antelación hay que cancelar {o}?"),
            ),
        },
    ),
    Family(
        "money",
        {
            "en": Forms(
                ("water damage", "storm damage", "burglary", "broken glass", "fire damage", "bicycle theft", "hail damage", "lightning damage"),
                ("For {o}, the deductible is {v}.", "The deductible for {o} is {v}.", "In the case of {o}, the customer pays the first {v}.", "{v} of every claim for {o} are paid by the insured person."),
                ("How high is the deductible for {o}?", "What deductible applies to {o}?", "How much must I pay myself in the case of {o}?"),
            ),
            "de": Forms(
                ("Wasserschäden", "Sturmschäden", "Einbrüche", "Glasbruch", "Brandschäden", "Fahrraddiebstahl", "Hagelschäden", "Blitzschäden"),
                ("Für {o} gilt eine Selbstbeteiligung von {v}.", "Die Selbstbeteiligung für {o} beträgt {v}.", "Bei Ansprüchen für {o} zahlen Versicherte die ersten {v} selbst.", "{v} müssen Kunden für {o} selbst tragen."),
                ("Wie hoch ist die Selbstbeteiligung für {o}?", "Welche Selbstbeteiligung gilt für {o}?"),
            ),
            "fr": Forms(
                ("les dégâts des eaux", "les tempêtes", "les cambriolages", "le bris de glace", "les incendies", "le vol de vélo", "la grêle", "la foudre"),
                ("Pour {o}, la franchise est de {v}.", "La franchise s'élève à {v} pour {o}.", "L'assuré paie lui-même {v} pour {o}.", "Pour {o}, les premiers {v} restent à la charge de l'assuré."),
                ("Quel est le montant de la franchise pour {o} ?", "Quelle franchise s'applique pour {o} ?"),
            ),
            "es": Forms(
                ("los daños por agua", "las tormentas", "los robos en casa", "la rotura de cristales", "los incendios", "el robo de bicicletas", "el granizo", "los rayos"),
                ("Para {o}, la franquicia es de {v}.", "La franquicia asciende a {v} para {o}.", "El asegurado paga {v} de su bolsillo por {o}.", "Para {o}, los primeros {v} corren a cargo del asegurado."),
                ("¿A cuánto asciende la franquicia para {o}?", "¿Qué franquicia se aplica para {o}?"),
            ),
        },
    ),
    Family(
        "money",
        {
            "en": Forms(
                ("children", "students", "adults", "pensioners", "groups", "families", "visitors from the town", "members"),
                ("For {o}, a ticket costs {v}.", "A ticket for {o} costs {v}.", "The price for {o} is {v}.", "{v} is what {o} pay for a ticket."),
                ("How much is a ticket for {o}?", "What does a ticket cost for {o}?", "What do {o} pay?"),
            ),
            "de": Forms(
                ("Kinder", "Studierende", "Erwachsene", "Rentner", "Gruppen", "Familien", "Einheimische", "Mitglieder"),
                ("Für {o} kostet der Eintritt {v}.", "{o} zahlen {v} Eintritt.", "Der Preis für {o} beträgt {v}.", "Eine Karte für {o} gibt es für {v}."),
                ("Was kostet der Eintritt für {o}?", "Wie viel zahlen {o} für den Eintritt?"),
            ),
            "fr": Forms(
                ("les enfants", "les étudiants", "les adultes", "les retraités", "les groupes", "les familles", "les habitants", "les membres"),
                ("Pour {o}, l'entrée coûte {v}.", "Le billet coûte {v} pour {o}.", "Le prix est de {v} pour {o}.", "On demande {v} pour {o}."),
                ("Combien coûte l'entrée pour {o} ?", "Quel est le prix du billet pour {o} ?"),
            ),
            "es": Forms(
                ("los niños", "los estudiantes", "los adultos", "los jubilados", "los grupos", "las familias", "los vecinos", "los socios"),
                ("Para {o}, la entrada cuesta {v}.", "La entrada cuesta {v} para {o}.", "El precio es de {v} para {o}.", "Se cobran {v} en el caso de {o}."),
                ("¿Cuánto cuesta la entrada para {o}?", "¿Cuál es el precio de la entrada para {o}?"),
            ),
        },
    ),
    Family(
        "months",
        {
            "en": Forms(
                ("washing machines", "used cars", "batteries", "shoes", "laptops", "furniture", "screens", "repairs"),
                ("The guarantee for {o} ends after {v}.", "For {o}, the guarantee lasts {v}.", "We give a guarantee of {v} on {o}.", "{v} after the purchase, the guarantee on {o} expires."),
                ("How long does the guarantee on {o} last?", "How long is the guarantee for {o}?", "When does the guarantee on {o} end?"),
            ),
            "de": Forms(
                ("Waschmaschinen", "Gebrauchtwagen", "Akkus", "Schuhe", "Laptops", "Möbel", "Bildschirme", "Reparaturen"),
                ("Die Garantie für {o} endet nach {v}.", "Für {o} gilt eine Garantie von {v}.", "Auf {o} geben wir eine Garantie von {v}.", "Nach {v} läuft die Garantie auf {o} ab."),
                ("Wie lange gilt die Garantie für {o}?", "Wann endet die Garantie auf {o}?"),
            ),
            "fr": Forms(
                ("les machines à laver", "les voitures d'occasion", "les batteries", "les chaussures", "les ordinateurs", "les meubles", "les écrans", "les réparations"),
                ("La garantie prend fin après {v} pour {o}.", "Pour {o}, la garantie dure {v}.", "Nous donnons une garantie de {v} sur {o}.", "Au bout de {v}, la garantie sur {o} expire."),
                ("Combien de temps dure la garantie pour {o} ?", "Quand expire la garantie sur {o} ?"),
            ),
            "es": Forms(
                ("las lavadoras", "los coches usados", "las baterías", "los zapatos", "los portátiles", "los muebles", "las pantallas", "las reparaciones"),
                ("La garantía termina a los {v} para {o}.", "Para {o}, la garantía dura {v}.", "Damos una garantía de {v} en {o}.", "Pasados {v}, vence la garantía de {o}."),
                ("¿Cuánto dura la garantía para {o}?", "¿Cuándo vence la garantía de {o}?"),
            ),
        },
    ),
    Family(
        "percent",
        {
            "en": Forms(
                ("crowns", "glasses", "hearing aids", "a stay in hospital", "physiotherapy", "medicine", "vaccinations", "an ambulance"),
                ("The insurance pays {v} of the costs of {o}.", "{v} of the costs of {o} are reimbursed.", "For {o}, we reimburse {v}.", "Members get back {v} of what they spend on {o}."),
                ("What share of the costs of {o} is paid?", "How much of the costs of {o} does the insurance pay?", "How much is reimbursed for {o}?"),
            ),
            "de": Forms(
                ("Zahnkronen", "Brillen", "Hörgeräte", "Klinikaufenthalte", "Krankengymnastik", "Medikamente", "Impfungen", "Krankentransporte"),
                ("Für {o} übernimmt die Kasse {v} der Kosten.", "{v} der Kosten für {o} werden erstattet.", "Bei Ausgaben für {o} erstatten wir {v}.", "Mitglieder bekommen für {o} {v} zurück."),
                ("Welcher Anteil der Kosten für {o} wird übernommen?", "Wie viel wird für {o} erstattet?"),
            ),
            "fr": Forms(
                ("les couronnes dentaires", "les lunettes", "les appareils auditifs", "les séjours à l'hôpital", "la kinésithérapie", "les médicaments", "les vaccins", "les ambulances"),
                ("Pour {o}, l'assurance prend en charge {v} des frais.", "{v} des frais sont remboursés pour {o}.", "Nous remboursons {v} pour {o}.", "Les membres récupèrent {v} de leurs dépenses pour {o}."),
                ("Quelle part des frais est prise en charge pour {o} ?", "Combien est remboursé pour {o} ?"),
            ),
            "es": Forms(
                ("las coronas dentales", "las gafas", "los audífonos", "las estancias en el hospital", "la fisioterapia", "los medicamentos", "las vacunas", "las ambulancias"),
                ("Para {o}, el seguro paga el {v} de los gastos.", "Se reembolsa el {v} de los gastos para {o}.", "Reembolsamos el {v} en el caso de {o}.", "Los socios recuperan el {v} de lo que gastan en {o}."),
                ("¿Qué parte de los gastos se paga para {o}?", "¿Cuánto se reembolsa para {o}?"),
            ),
        },
    ),
    Family(
        "age",
        {
            "en": Forms(
                ("the evening class", "the climbing wall", "the voluntary fire service", "the night bus pass", "the summer camp", "the boat licence", "the library card", "the sauna"),
                ("The minimum age for {o} is {v}.", "For {o}, people must be at least {v} old.", "{o} is open to people of {v} or older.", "Nobody under {v} is admitted to {o}."),
                ("How old must people be for {o}?", "What is the minimum age for {o}?"),
                limits=(("For {o}, people must be at least {v} old.", "For {o}, people must be at most {v} old."), ("The minimum age for {o} is {v}.", "The maximum age for {o} is {v}.")),
            ),
            "de": Forms(
                ("den Abendkurs", "die Kletterwand", "die Freiwillige Feuerwehr", "die Nachtkarte", "das Sommerlager", "den Bootsschein", "den Bibliotheksausweis", "die Sauna"),
                ("Für {o} gilt ein Mindestalter von {v}.", "Das Mindestalter für {o} liegt bei {v}.", "Wer sich für {o} anmeldet, muss ein Alter von mindestens {v} haben."),
                ("Wie alt muss man für {o} sein?", "Welches Mindestalter gilt für {o}?"),
                limits=(("Für {o} gilt ein Mindestalter von {v}.", "Für {o} gilt ein Höchstalter von {v}."),),
            ),
            "fr": Forms(
                ("le cours du soir", "le mur d'escalade", "les pompiers volontaires", "la carte de nuit", "le camp d'été", "le permis bateau", "la carte de bibliothèque", "le sauna"),
                ("Pour {o}, l'âge minimum est de {v}.", "Il faut avoir au moins {v} pour {o}.", "L'âge minimum est fixé à {v} pour {o}."),
                ("Quel âge faut-il avoir pour {o} ?", "Quel est l'âge minimum pour {o} ?"),
                limits=(("Il faut avoir au moins {v} pour {o}.", "Il faut avoir au plus {v} pour {o}."),),
            ),
            "es": Forms(
                ("el curso nocturno", "el muro de escalada", "los bomberos voluntarios", "el bono nocturno", "el campamento de verano", "la licencia de barco", "el carné de la biblioteca", "la sauna"),
                ("Para {o}, la edad mínima es de {v}.", "Hay que tener al menos {v} para {o}.", "La edad mínima se fija en {v} para {o}."),
                ("¿Qué edad hay que tener para {o}?", "¿Cuál es la edad mínima para {o}?"),
                limits=(("Hay que tener al menos {v} para {o}.", "Hay que tener como máximo {v} para {o}."),),
            ),
        },
    ),
    Family(
        "days",
        {
            "en": Forms(
                ("an accident", "a change of address", "a lost card", "a theft", "an illness", "a birth", "a defect", "a new bank account"),
                ("Members must report {o} within {v}.", "{o} must be reported to the office within {v}.", "There is a limit of {v} for reporting {o}.", "The office must hear of {o} no later than {v} afterwards."),
                ("Within how many days must {o} be reported?", "How much time is there to report {o}?", "What is the time limit for reporting {o}?"),
                limits=(("{o} must be reported within {v}.", "{o} may be reported after more than {v}."),),
            ),
            "de": Forms(
                ("einen Unfall", "einen Umzug", "einen Kartenverlust", "einen Diebstahl", "eine Krankheit", "eine Geburt", "einen Mangel", "ein neues Konto"),
                ("Mitglieder müssen {o} innerhalb von {v} melden.", "Wer {o} melden muss, hat dafür eine Frist von {v}.", "Spätestens nach {v} ist {o} dem Büro anzuzeigen."),
                ("Innerhalb welcher Frist muss man {o} melden?", "Wie viel Zeit hat man, um {o} zu melden?"),
            ),
            "fr": Forms(
                ("un accident", "un déménagement", "une perte de carte", "un vol", "une maladie", "une naissance", "un défaut", "un nouveau compte"),
                ("Il faut signaler {o} dans un délai de {v}.", "Les membres ont {v} pour signaler {o}.", "Au plus tard après {v}, il faut déclarer {o} au bureau."),
                ("Dans quel délai faut-il signaler {o} ?", "Combien de temps a-t-on pour signaler {o} ?"),
            ),
            "es": Forms(
                ("un accidente", "un cambio de domicilio", "la pérdida de la tarjeta", "un robo", "una enfermedad", "un nacimiento", "un defecto", "una cuenta nueva"),
                ("Hay que comunicar {o} en un plazo de {v}.", "Los socios tienen {v} para comunicar {o}.", "Como muy tarde a los {v}, hay que declarar {o} en la oficina."),
                ("¿En qué plazo hay que comunicar {o}?", "¿Cuánto tiempo hay para comunicar {o}?"),
            ),
        },
    ),
    Family(
        "clock",
        {
            "en": Forms(
                ("the swimming pool", "the town hall", "the museum", "the recycling yard", "the pharmacy", "the reading room", "the ticket office", "the workshop"),
                ("On weekdays, {o} opens at {v}.", "{o} opens its doors at {v}.", "Visitors can enter {o} from {v}.", "{v} is the time when {o} opens."),
                ("When does {o} open?", "From what time is {o} open?", "At what time can people enter {o}?"),
                limits=(("{o} opens at {v}.", "{o} closes at {v}."),),
            ),
            "de": Forms(
                ("das Schwimmbad", "das Rathaus", "das Museum", "der Wertstoffhof", "die Apotheke", "der Lesesaal", "die Kasse", "die Werkstatt"),
                ("Werktags öffnet {o} um {v}.", "Um {v} öffnet {o}.", "Ab {v} ist {o} geöffnet."),
                ("Wann öffnet {o}?", "Ab wann ist {o} geöffnet?", "Um wie viel Uhr öffnet {o}?"),
                limits=(("Um {v} öffnet {o}.", "Um {v} schließt {o}."),),
            ),
            "fr": Forms(
                ("la piscine", "la mairie", "le musée", "la déchetterie", "la pharmacie", "la salle de lecture", "le guichet", "l'atelier"),
                ("En semaine, {o} ouvre à {v}.", "À {v}, {o} ouvre ses portes.", "On peut entrer à partir de {v} : {o} est alors ouvert au public."),
                ("À quelle heure ouvre {o} ?", "Quand est-ce que {o} ouvre ?"),
                limits=(("À {v}, {o} ouvre ses portes.", "À {v}, {o} ferme ses portes."),),
            ),
            "es": Forms(
                ("la piscina", "el ayuntamiento", "el museo", "el punto limpio", "la farmacia", "la sala de lectura", "la taquilla", "el taller"),
                ("Entre semana, {o} abre a {v}.", "A {v} abre {o}.", "Desde {v} se puede entrar: {o} abre a esa hora."),
                ("¿A qué hora abre {o}?", "¿Cuándo abre {o}?"),
                limits=(("A {v} abre {o}.", "A {v} cierra {o}."),),
            ),
        },
    ),
    Family(
        "role",
        {
            "en": Forms(
                ("the repair of the heating", "the cleaning of the stairs", "the clearing of snow", "the keys", "the annual accounts", "the training of new staff", "the order of paper", "the inspection of the lift"),
                ("{v} is responsible for {o}.", "Responsibility for {o} lies with {v}.", "{o} is the task of {v}.", "It is {v} that takes care of {o}."),
                ("Who is responsible for {o}?", "Whose task is {o}?", "Who takes care of {o}?"),
                values=("the landlord", "the tenant", "the caretaker", "the board", "the head office", "the branch", "the treasurer", "the supplier"),
            ),
            "de": Forms(
                ("die Reparatur der Heizung", "die Reinigung der Treppe", "den Winterdienst", "die Schlüssel", "den Jahresabschluss", "die Einarbeitung", "die Bestellung von Papier", "die Prüfung des Aufzugs"),
                ("Für {o} ist {v} zuständig.", "{v} ist für {o} verantwortlich.", "Um {o} kümmert sich {v}."),
                ("Wer ist für {o} zuständig?", "Wer kümmert sich um {o}?"),
                values=("der Vermieter", "der Mieter", "die Hausverwaltung", "der Vorstand", "die Zentrale", "die Filiale", "die Kassenwartin", "der Lieferant"),
            ),
            "fr": Forms(
                ("la réparation du chauffage", "le nettoyage de l'escalier", "le déneigement", "la gestion des clés", "les comptes annuels", "la formation des nouveaux", "la commande de papier", "le contrôle de l'ascenseur"),
                ("Pour {o}, {v} est responsable.", "{v} s'occupe de tout pour {o}.", "C'est {v} qui prend en charge {o}."),
                ("Qui est responsable pour {o} ?", "Qui prend en charge {o} ?"),
                values=("le propriétaire", "le locataire", "le gardien", "le comité", "le siège", "la filiale", "la trésorière", "le fournisseur"),
            ),
            "es": Forms(
                ("la reparación de la calefacción", "la limpieza de la escalera", "la retirada de la nieve", "las llaves", "las cuentas anuales", "la formación del personal", "el pedido de papel", "la revisión del ascensor"),
                ("Para {o}, el responsable es {v}.", "{v} se encarga de {o}.", "Es {v} quien se ocupa de {o}."),
                ("¿Quién es el responsable para {o}?", "¿Quién se ocupa de {o}?"),
                values=("el propietario", "el inquilino", "la portera", "la junta", "la central", "la sucursal", "la tesorera", "el proveedor"),
            ),
        },
    ),
    Family(
        "bool",
        {
            "en": Forms(
                ("flood damage", "damage by pets", "lost luggage", "damage abroad", "gross negligence", "rented cars", "cracked screens", "mould", "missed flights"),
                ("{o} is covered by the policy.", "The policy covers {o}.", "The insurance pays for {o}.", "The insurance includes {o}."),
                ("Is {o} covered?", "Does the policy cover {o}?", "Does the insurance pay for {o}?"),
                ("{o} is not covered by the policy.", "The policy does not cover {o}.", "The insurance does not pay for {o}.", "The insurance excludes {o}.", "There is no cover for {o}."),
            ),
            "de": Forms(
                ("Hochwasserschäden", "Schäden durch Haustiere", "verlorenes Gepäck", "Schäden im Ausland", "grobe Fahrlässigkeit", "Mietwagen", "gesprungene Bildschirme", "Schimmel", "verpasste Flüge"),
                ("Die Versicherung deckt {o} ab.", "Für {o} kommt die Versicherung auf.", "Versichert sind auch {o}.", "Die Police schließt {o} ein."),
                ("Deckt die Versicherung {o} ab?", "Kommt die Versicherung für {o} auf?", "Zahlt die Versicherung für {o}?"),
                ("Die Versicherung deckt {o} nicht ab.", "Für {o} kommt die Versicherung nicht auf.", "Nicht versichert sind {o}.", "Die Police schließt {o} aus.", "Für {o} besteht kein Schutz."),
            ),
            "fr": Forms(
                ("les inondations", "les dégâts causés par les animaux", "les bagages perdus", "les dommages à l'étranger", "la négligence grave", "les voitures de location", "les écrans fissurés", "la moisissure", "les vols manqués"),
                ("L'assurance couvre {o}.", "Le contrat inclut {o}.", "L'assurance paie pour {o}.", "La police prend en charge {o}."),
                ("L'assurance couvre-t-elle {o} ?", "Est-ce que l'assurance paie pour {o} ?"),
                ("L'assurance ne couvre pas {o}.", "Le contrat exclut {o}.", "L'assurance ne paie pas pour {o}.", "La police ne prend pas en charge {o}.", "Il n'y a aucune couverture pour {o}."),
            ),
            "es": Forms(
                ("las inundaciones", "los daños causados por mascotas", "el equipaje perdido", "los daños en el extranjero", "la negligencia grave", "los coches de alquiler", "las pantallas rotas", "el moho", "los vuelos perdidos"),
                ("El seguro cubre {o}.", "El contrato incluye {o}.", "El seguro paga por {o}.", "La póliza se hace cargo de {o}."),
                ("¿Cubre el seguro {o}?", "¿Paga el seguro por {o}?"),
                ("El seguro no cubre {o}.", "El contrato excluye {o}.", "El seguro no paga por {o}.", "La póliza no se hace cargo de {o}.", "No hay cobertura para {o}."),
            ),
        },
    ),
    Family(
        "bool",
        {
            "en": Forms(
                ("bring dogs", "smoke on the balcony", "work from home", "use the car park at night", "take photographs", "pay in instalments", "swap shifts", "sublet a room", "eat in the reading room"),
                ("Members may {o}.", "It is allowed to {o}.", "The rules permit members to {o}.", "Anyone can {o}."),
                ("May members {o}?", "Is it allowed to {o}?", "Can I {o}?"),
                ("Members may not {o}.", "It is forbidden to {o}.", "The rules do not permit members to {o}.", "Nobody can {o}."),
            ),
            "de": Forms(
                ("Hunde mitbringen", "auf dem Balkon rauchen", "zu Hause arbeiten", "nachts den Parkplatz nutzen", "fotografieren", "in Raten zahlen", "Schichten tauschen", "ein Zimmer untervermieten", "im Lesesaal essen"),
                ("Mitglieder dürfen {o}.", "Man darf {o}.", "Alle können {o}.", "Nach den Regeln darf man {o}."),
                ("Dürfen Mitglieder {o}?", "Darf man {o}?", "Kann ich {o}?"),
                ("Mitglieder dürfen nicht {o}.", "Man darf nicht {o}.", "Niemand darf {o}.", "Nach den Regeln darf man nicht {o}."),
            ),
            "fr": Forms(
                ("amener un chien", "fumer sur le balcon", "travailler à domicile", "utiliser le parking la nuit", "prendre des photos", "payer en plusieurs fois", "échanger leurs horaires", "sous-louer une chambre", "manger dans la salle de lecture"),
                ("Les membres peuvent {o}.", "Il est permis de {o}.", "Le règlement permet de {o}.", "On peut {o}."),
                ("Est-il permis de {o} ?", "Peut-on {o} ?", "Les membres peuvent-ils {o} ?"),
                ("Les membres ne peuvent pas {o}.", "Il est interdit de {o}.", "Le règlement ne permet pas de {o}.", "On ne peut pas {o}."),
            ),
            "es": Forms(
                ("traer perros", "fumar en el balcón", "trabajar desde casa", "usar el aparcamiento de noche", "hacer fotos", "pagar a plazos", "cambiar turnos", "subarrendar una habitación", "comer en la sala de lectura"),
                ("Los socios pueden {o}.", "Está permitido {o}.", "Las normas permiten {o}.", "Se puede {o}."),
                ("¿Está permitido {o}?", "¿Se puede {o}?", "¿Pueden los socios {o}?"),
                ("Los socios no pueden {o}.", "Está prohibido {o}.", "Las normas no permiten {o}.", "No se puede {o}."),
            ),
        },
    ),
)  # fmt: skip
FILLERS = {
    "en": ("These rules apply from January {y}.", "The board revised this page in {y}.", "Please read the conditions with care.", "Exceptions need a written agreement.", "The office answers questions by e-mail.", "Copies are kept at the reception."),
    "de": ("Diese Regeln gelten ab Januar {y}.", "Der Vorstand hat diese Seite {y} überarbeitet.", "Bitte lesen Sie die Bedingungen genau.", "Ausnahmen müssen schriftlich vereinbart werden.", "Das Büro beantwortet Fragen per E-Mail.", "Kopien liegen am Empfang aus."),
    "fr": ("Ces règles valent à partir de janvier {y}.", "Le comité a révisé cette page en {y}.", "Veuillez lire les conditions avec soin.", "Toute exception exige un accord écrit.", "Le bureau répond aux questions par courriel.", "Des copies se trouvent à l'accueil."),
    "es": ("Estas normas valen desde enero de {y}.", "La junta revisó esta página en {y}.", "Lea las condiciones con atención.", "Las excepciones exigen un acuerdo por escrito.", "La oficina responde a las preguntas por correo.", "Hay copias en la recepción."),
}  # fmt: skip
JOINTS = {"en": ", and ", "de": ", und ", "fr": ", et ", "es": ", y "}
PREFIXES = {
    "en": ("", "", "", "According to the rules, ", "As far as I can see, ", "In your case, "),
    "de": ("", "", "", "Laut Text: ", "Soweit ich sehe: ", "Kurz gesagt: "),
    "fr": ("", "", "", "Selon le texte : ", "En bref : ", "D'après le règlement : "),
    "es": ("", "", "", "Según el texto: ", "En resumen: ", "Según las normas: "),
}  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One fact of a text. `value` is the written value or role; None if it is yes or no."""

    language: str
    family: Family
    object: str
    value: str | None
    is_yes: bool = True

    @property
    def forms(self) -> Forms:
        return self.family.forms[self.language]

    def say(self, rng: random.Random) -> str:
        patterns = self.forms.says
        if not self.is_yes:
            patterns = self.forms.denies
        return capitalised(self._fill(rng.choice(patterns)))

    def ask(self, rng: random.Random) -> str:
        return capitalised(self._fill(rng.choice(self.forms.asks)))

    def say_limit(self, rng: random.Random, *, turned: bool) -> str:
        """Say the limit as it is, or turned round: at most in place of at least."""
        right, wrong = rng.choice(self.forms.limits)
        return capitalised(self._fill(wrong if turned else right))

    def _fill(self, pattern: str) -> str:
        text = pattern.format(o=self.object, v=self.value)
        if self.language == "es":
            text = text.replace(" de el ", " del ")
        return text


def capitalised(text: str) -> str:
    """Begin with a capital letter; a question mark turned round stays before it."""
    start = 1 if text.startswith("¿") else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def draw_value(family: Family, language: str, rng: random.Random) -> str | None:
    if family.unit == "bool":
        return None
    if family.unit == "role":
        return rng.choice(family.forms[language].values)
    pattern, numbers = UNITS[family.unit]
    return pattern[language].format(rng.choice(numbers))


class RuleText:
    """A text of facts, of which several are of one family, so that values can be swapped."""

    def __init__(self, rng: random.Random, language: str) -> None:
        self._rng = rng
        self.language = language
        count = rng.randint(FEWEST_FACTS, MOST_FACTS)
        families = rng.sample(FAMILIES, rng.choice((1, 2, 2, 3)))
        facts: list[Fact] = []
        for number in range(count):
            family = families[number % len(families)]
            fact = self._draw(family, facts)
            facts.append(fact)
        self.facts: tuple[Fact, ...] = tuple(facts)
        self._sentences = [fact.say(rng) for fact in facts]
        filler = rng.choice(FILLERS[language]).format(y=rng.randint(2005, 2029))
        self._filler = [filler] if rng.random() < 0.5 else []

    def _draw(self, family: Family, facts: Sequence[Fact]) -> Fact:
        """A new fact: another object, and another value, than those of its family."""
        others = [fact for fact in facts if fact.family is family]
        forms = family.forms[self.language]
        free = [o for o in forms.objects if o not in {fact.object for fact in others}]
        taken = {fact.value for fact in others}
        value = draw_value(family, self.language, self._rng)
        while value is not None and value in taken:
            value = draw_value(family, self.language, self._rng)
        is_yes = family.unit != "bool" or self._rng.random() < 0.5
        return Fact(self.language, family, self._rng.choice(free), value, is_yes)

    def text(self, without: Fact | None = None) -> str:
        """The text, without the sentence of one fact."""
        sentences = [
            sentence
            for fact, sentence in zip(self.facts, self._sentences, strict=True)
            if fact is not without
        ]
        return " ".join(self._filler + sentences)

    def sentence(self, fact: Fact) -> str:
        return self._sentences[self.facts.index(fact)]

    def neighbours(self, fact: Fact) -> list[Fact]:
        return [f for f in self.facts if f.family is fact.family and f is not fact]

    def strange_value(self, fact: Fact) -> str:
        """A value that no fact of this family has."""
        taken = {f.value for f in self.facts if f.family is fact.family}
        while True:
            value = draw_value(fact.family, self.language, self._rng)
            if value not in taken:
                return str(value)

    def claim(self, facts: Sequence[Fact]) -> str:
        """Say facts in words that may differ from the text's."""
        said = [fact.say(self._rng) for fact in facts]
        if self._rng.random() < 0.4:
            joint = JOINTS[self.language]
            return said[0].rstrip(".") + "".join(joint + self._lowered(s) for s in said[1:])
        prefix = self._rng.choice(PREFIXES[self.language])
        if prefix.endswith(", "):
            said[0] = self._lowered(said[0])
        return prefix + " ".join(said)

    def _lowered(self, sentence: str) -> str:
        if self.language == "de":
            return sentence
        return sentence[0].lower() + sentence[1:]
